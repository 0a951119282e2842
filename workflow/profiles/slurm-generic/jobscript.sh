#!/bin/sh
# properties = {properties}
# Slurm signals every process of a job. This shell must outlive the others: when it ends, Slurm
# kills them, and a training that was told to stop could not finish its round.
trap : TERM
{exec_job}
