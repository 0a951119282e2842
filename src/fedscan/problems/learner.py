"""Learners of the synthetic study: initial layer and batches (paper, Appendices G.2 and G.3)."""

import numpy as np

from fedscan.models.selective_ssm.layout import Blocks, Shape, flat
from fedscan.models.selective_ssm.stability import EPSILON, Margins, project
from fedscan.seeds import generator

INITIAL_SCALE = 0.1


def initial_params(shape: Shape, margins: Margins, seed: int) -> np.ndarray:
    """Return the layer a learner starts from, centrally and in federated runs.

    W_delta, W_B, W_C ~ N(0, 0.1^2), A_n = -(gamma + eps) - 0.1 |z_n|, then the projection.

    Args:
        shape: sizes of the layer.
        margins: configured gamma and delta.
        seed: root seed of the learner.

    Returns:
        (parameters) float32.
    """
    random = generator(seed, "initial layer", *shape)
    d, n = shape
    weights = (random.normal(0, INITIAL_SCALE, size) for size in ((d, d), (n, d), (n, d)))
    a = -(margins.gamma + EPSILON) - INITIAL_SCALE * np.abs(random.normal(size=n))
    layer = Blocks(*(w.astype(np.float32) for w in weights), a.astype(np.float32))
    return flat(project(layer, margins))


def epoch_batches(
    sequences: int, batch_size: int, seed: int, first_update: int, updates: int
) -> np.ndarray:
    """Return the batches of some updates of centralised training.

    Every epoch shuffles the sequences with a seed of its own and cuts them into batches, so
    batches do not depend on where training was interrupted.

    Args:
        sequences: training sequences, a multiple of ``batch_size``.
        batch_size: sequences per update.
        seed: root seed of the learner.
        first_update: updates taken before.
        updates: how many follow.

    Returns:
        (updates, batch_size) int64 indices.
    """
    per_epoch = sequences // batch_size
    wanted = np.arange(first_update, first_update + updates)
    batches = np.empty((updates, batch_size), np.int64)
    for epoch in np.unique(wanted // per_epoch):
        order = generator(seed, "epoch", int(epoch)).permutation(sequences)
        cut = order.reshape(per_epoch, batch_size)
        here = wanted // per_epoch == epoch
        batches[here] = cut[wanted[here] % per_epoch]
    return batches
