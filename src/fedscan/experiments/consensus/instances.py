"""Random instances of the analysed system that have a spectral gap, by kind of kernel."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from fedscan.models.analysed_ssm import AnalysedLayer
from fedscan.seeds import generator
from fedscan.theory.consensus import Constants, constants, transfer_range
from fedscan.theory.excitation import cap_minimum

# The axis that tokens may agree on: it alone does not decay, and has the largest step sizes.
AXIS = 0
STEP_NORM = 0.05
# Where the weaker of two alternating kernels is weighed against the stronger.
CAP = 0.5


class Instance(NamedTuple):
    """One random system.

    Attributes:
        alpha: (n).
        W_delta: (n, n).
        b_delta: (n).
        maps: (S_B, S_C) of the layers, (m, n) each; visited in turn, one unit of time each.
        kernels: S_BC = S_C^T S_B of the layers, (n, n) each.
        tokens: l.
    """

    alpha: np.ndarray
    W_delta: np.ndarray
    b_delta: np.ndarray
    maps: tuple[tuple[np.ndarray, np.ndarray], ...]
    kernels: tuple[np.ndarray, ...]
    tokens: int

    @property
    def constants(self) -> Constants:
        """Constants of Assumption III.1; the layers share their step sizes."""
        found = transfer_range(self.alpha, self.W_delta, self.b_delta, self.tokens)
        return constants([found], AXIS)

    def layers(self) -> list[AnalysedLayer]:
        """The layers as tensors, float64."""
        shared = [torch.from_numpy(v) for v in (self.alpha, self.W_delta, self.b_delta)]
        return [AnalysedLayer(*shared, *map(torch.from_numpy, pair)) for pair in self.maps]


def step_parts(n: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw decays and step sizes that satisfy Assumption III.1 for axis ``AXIS``.

    Args:
        n: channels.
        stream: source of randomness.

    Returns:
        alpha (n), W_delta (n, n) with rows of norm 0.05, b_delta (n).
    """
    alpha = stream.uniform(0.05, 0.1, n)
    b_delta = stream.uniform(-0.5, -0.3, n)
    W_delta = stream.standard_normal((n, n))
    W_delta *= STEP_NORM / np.linalg.norm(W_delta, axis=1, keepdims=True)
    alpha[AXIS], b_delta[AXIS] = 0.0, 1.0
    return alpha, W_delta, b_delta


def anisotropic(n: int, amount: float, stream: np.random.Generator) -> np.ndarray:
    """Draw a kernel whose c_star is exactly ``amount``.

    Args:
        n: channels.
        amount: a.
        stream: source of randomness.

    Returns:
        I + a (N + P) / sqrt(2), N skew, P positive semidefinite with P e^a = 0, both of Frobenius
        norm 1: then the symmetric part's smallest eigenvalue is 1, and ||K - K_aa I|| = a.
    """
    skew = stream.standard_normal((n, n))
    skew -= skew.T
    half = stream.standard_normal((n, n))
    half[:, AXIS] = 0.0
    positive = half.T @ half
    skew /= np.linalg.norm(skew)
    positive /= np.linalg.norm(positive)
    return np.eye(n) + amount * (skew + positive) / np.sqrt(2)


def _isotropic(
    n: int, _amount: float, stream: np.random.Generator, _found: Constants
) -> list[np.ndarray]:
    return [stream.uniform(0.5, 1.5) * np.eye(n)]


def _definite(
    n: int, amount: float, stream: np.random.Generator, _found: Constants
) -> list[np.ndarray]:
    return [anisotropic(n, amount, stream)]


def _alternating(
    n: int, _amount: float, stream: np.random.Generator, found: Constants
) -> list[np.ndarray]:
    """A definite kernel, then a negative one that takes a quarter of what the first gives."""
    strong = anisotropic(n, 0.3, stream)
    gained = found.gamma * CAP * (1 + CAP) * cap_minimum(strong, AXIS, CAP)
    weak = -anisotropic(n, 0.3, stream)
    lost = -2 * (found.gamma_upper + found.lambda_sum) * cap_minimum(weak, AXIS, CAP)
    return [strong, 0.25 * gained / lost * weak]


def _indefinite(
    n: int, _amount: float, stream: np.random.Generator, _found: Constants
) -> list[np.ndarray]:
    return [stream.standard_normal((n, n)) / np.sqrt(n)]


Kernels = Callable[[int, float, np.random.Generator, Constants], list[np.ndarray]]
KERNELS: dict[str, Kernels] = {
    "isotropic": _isotropic,
    "definite": _definite,
    "alternating": _alternating,
    "indefinite": _indefinite,
}


def instance(
    seed: int, kernel: str, amount: float, index: int, n: int, m: int, tokens: int
) -> Instance:
    """Draw an instance.

    Args:
        seed: root seed.
        kernel: a key of ``KERNELS``.
        amount: c_star of 'definite' kernels; the stream does not depend on it.
        index: which instance of its kind.
        n: channels.
        m: state size. Below n no kernel of full rank is S_C^T S_B: both maps are then drawn.
        tokens: l.

    Returns:
        The system.
    """
    stream = generator(seed, "consensus instance", kernel, index)
    alpha, W_delta, b_delta = step_parts(n, stream)
    found = constants([transfer_range(alpha, W_delta, b_delta, tokens)], AXIS)
    if m < n:
        S_B, S_C = (stream.standard_normal((m, n)) / np.sqrt(n) for _ in range(2))
        return Instance(alpha, W_delta, b_delta, ((S_B, S_C),), (S_C.T @ S_B,), tokens)
    kernels = tuple(KERNELS[kernel](n, amount, stream, found))
    # Orthonormal columns Q: S_B = Q and S_C = Q K^T give S_C^T S_B = K.
    basis = np.linalg.qr(stream.standard_normal((m, n)))[0]
    maps = tuple((basis, basis @ k.T) for k in kernels)
    return Instance(alpha, W_delta, b_delta, maps, kernels, tokens)


def starts(seed: int, index: int, count: int, tokens: int, n: int) -> np.ndarray:
    """Draw tokens uniformly on the sphere.

    Args:
        seed: root seed.
        index: which instance of its kind.
        count: starts; a further one changes no other.
        tokens: l.
        n: channels.

    Returns:
        (count, tokens, n).
    """
    drawn = generator(seed, "consensus starts", index).standard_normal((count, tokens, n))
    unit: np.ndarray = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
    return unit
