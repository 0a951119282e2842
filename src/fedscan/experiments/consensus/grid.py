"""Words of the section ``consensus`` that stages and planning share. No torch."""

# Checkpoints that are no folder and no hub id: the best model of the runs; new values.
FEDERATED, RANDOM = "federated", "random"
# A round of section ``runs``: the run's last.
ROUND_LAST = "last"
