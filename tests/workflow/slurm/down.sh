#!/bin/bash
# down.sh FOLDER: end the daemons that up.sh started there, and remove what it wrote into /etc.
folder=$1
scancel --user=root --signal=KILL --full 2> /dev/null
scancel --user=root 2> /dev/null
for daemon in slurmd slurmctld munged; do
    [ -f "$folder/run/$daemon.pid" ] || continue
    process=$(cat "$folder/run/$daemon.pid")
    kill "$process" 2> /dev/null
    for _ in $(seq 50); do
        kill -0 "$process" 2> /dev/null || break
        sleep 0.1
    done
    kill -KILL "$process" 2> /dev/null
    rm -f "$folder/run/$daemon.pid"
done
for file in /etc/slurm/slurm.conf /etc/slurm/gres.conf; do
    if head -1 "$file" 2> /dev/null | grep -qF "# written by fedscan's tests"; then rm -f "$file"; fi
done
exit 0
