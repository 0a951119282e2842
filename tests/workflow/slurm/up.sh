#!/bin/bash
# up.sh FOLDER: a Slurm of this one machine on the loopback interface, as root: no systemd, no
# cgroups (so memory is counted, not enforced), no accounting database. down.sh FOLDER ends it.
set -euo pipefail
folder=$1
mark="# written by fedscan's tests"
host=$(hostname -s)
mkdir -p "$folder"/{state,spool,log,run} /etc/slurm /run/munge

# slurm-jobstep drops SLURM_CONF, so that only the file in the default place is found by its srun.
for file in /etc/slurm/slurm.conf /etc/slurm/gres.conf; do
    if [ -e "$file" ] && ! head -1 "$file" | grep -qF "$mark"; then
        echo "$file belongs to another Slurm; not touched" >&2
        exit 3
    fi
done

for gpu in 0 1; do  # character devices: for plain files Slurm sets no CUDA_VISIBLE_DEVICES
    [ -c "$folder/gpu$gpu" ] || mknod "$folder/gpu$gpu" c 1 3
done
cat > /etc/slurm/gres.conf <<END
$mark
NodeName=$host Name=gpu Type=fake File=$folder/gpu[0-1]
END
cat > /etc/slurm/slurm.conf <<END
$mark
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17617
SlurmdPort=17618
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job is held until its credential has expired: 120 s by default.
AuthInfo=cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ReturnToService=2
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MinJobAge=300
KillWait=20
GresTypes=gpu
# More cores and memory than there may be: jobs here are small.
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=32000 Gres=gpu:fake:2 State=UNKNOWN
PartitionName=normal Nodes=$host Default=YES MaxTime=1-00:00:00 PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=cancelled Nodes=$host MaxTime=1-00:00:00 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=urgent Nodes=$host MaxTime=1:00:00 PriorityTier=10 PreemptMode=OFF State=UP
END

if [ ! -s "$folder/munge.key" ]; then
    head -c 1024 /dev/urandom > "$folder/munge.key"
    chmod 600 "$folder/munge.key"
fi
munged --force --key-file="$folder/munge.key" --pid-file="$folder/run/munged.pid" \
    --log-file="$folder/log/munged.log" --seed-file="$folder/state/munge.seed" --num-threads=2
slurmctld
slurmd
for _ in $(seq 200); do
    if sinfo --noheader --format=%T 2> /dev/null | grep -q idle; then exit 0; fi
    sleep 0.1
done
echo "Slurm did not start:" >&2
tail -n 20 "$folder"/log/*.log >&2
exit 1
