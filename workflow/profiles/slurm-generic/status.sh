#!/bin/bash
# status.sh JOB: print running, success or failed, as Snakemake's cluster-generic executor asks.
found=$(scontrol --oneliner show job "$1" 2>&1)
case "$found" in
    *"Invalid job id"*)  # forgotten by the controller (MinJobAge): only accounting knows
        state=$(sacct --jobs="$1" --allocations --noheader --parsable2 --format=State 2> /dev/null)
        ;;
    *JobState=*)
        state=${found#*JobState=}
        ;;
    *)  # the controller does not answer; its jobs go on without it
        echo running
        exit 0
        ;;
esac
case "${state%% *}" in
    COMPLETED*) echo success ;;
    PENDING | RUNNING | CONFIGURING | COMPLETING | SUSPENDED | STOPPED | REQUEUED | REQUEUE_* | \
        RESIZING | SIGNALING | STAGE_OUT | SPECIAL_EXIT) echo running ;;
    # Also a state nobody knows: run again, a finished job then finds its rows and ends.
    *) echo failed ;;
esac
