#!/bin/sh
# The Slurm profiles are tested on a real Slurm of one machine. As root on Debian or Ubuntu (as in
# CI) its packages are installed here, no daemon is started; elsewhere those tests are skipped.
set -eu
if command -v slurmctld > /dev/null && command -v slurmd > /dev/null && command -v munged > /dev/null
then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        slurmctld slurmd slurm-client munge
else
    echo "no Slurm here: the tests of its profiles will be skipped" >&2
fi
