"""Which sequences a client trains on: sampling with replacement from named streams."""

import numpy as np

from fedscan import seeds


def batch_indices(
    seed: int, client: int, round_index: int, sequences: int, local_steps: int, batch_size: int
) -> np.ndarray:
    """Draw the sequences of one client's local steps in one round, with replacement.

    Args:
        seed: root seed of the run.
        client: client index.
        round_index: communication round from 1.
        sequences: sequences the client holds.
        local_steps: local steps E.
        batch_size: sequences per step.

    Returns:
        (local_steps, batch_size) int64 indices below ``sequences``. The first steps are the same
        for every E, so that runs of different E share their data as far as possible.
    """
    stream = seeds.generator(seed, "batches", client, round_index)
    return stream.integers(sequences, size=(local_steps, batch_size), dtype=np.int64)
