"""Which implementation measures gradients: a choice of the configuration, never a fallback."""

from collections.abc import Callable

import numpy as np

from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import Shape

SequenceGradients = Callable[[np.ndarray, np.ndarray, Shape], tuple[np.ndarray, np.ndarray]]


def sequence_gradients(kernels: str) -> SequenceGradients:
    """Return the function (params, tokens, shape) -> losses and gradients per sequence.

    Args:
        kernels: 'cpu' (compiled by Numba) or 'triton' (CUDA).

    Returns:
        The function.

    Raises:
        ValueError: for another name, or if triton is not installed.
    """
    if kernels == "cpu":
        return cpu.sequence_gradients
    if kernels != "triton":
        raise ValueError(f"kernels {kernels!r} are not known; use 'cpu' or 'triton'")
    try:
        # Imported here: triton is there on GPU machines only.
        from fedscan.models.selective_ssm import gpu
    except ImportError as error:
        raise ValueError(f"kernels 'triton' need package triton ({error}); use 'cpu'") from None
    return gpu.sequence_gradients
