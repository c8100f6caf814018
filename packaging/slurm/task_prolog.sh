#!/bin/sh
# TaskProlog of Slurm, which the job's user runs before each task. The planner mounts a job's store on the nodes that
# serve it. On other nodes a task reaches the store at the same path, through the preload library alone.
if [ -n "$WEIR_MOUNT" ] && ! mountpoint -q "$WEIR_MOUNT"; then
    echo "unset WEIR_MOUNT"
    echo "export WEIR_PREFIX=$WEIR_MOUNT"
fi
