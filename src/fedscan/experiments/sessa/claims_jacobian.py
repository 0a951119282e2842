"""Claims 9 to 11: end to end, routing free to move (section 4.3; appendices B and C)."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedscan.experiments.sessa.claim import Claim, at_most, equal
from fedscan.experiments.sessa.constructed import random_layer
from fedscan.experiments.sessa.slopes import batched, one_by_one
from fedscan.models.attention import rotate
from fedscan.models.sessa import Sessa
from fedscan.seeds import generator
from fedscan.theory.envelopes import (
    LoopConstants,
    convolution_constant,
    loop_envelope,
    loop_jacobian_bound,
)
from fedscan.theory.feedback import softmax_slope_bound

LENGTH, WIDTH = 24, 4
# Weights' scales: small ones leave routing near uniform, so that eta is below 1.
SCALES = (0.05, 0.3, 1.0)


def claims(seed: int, gains: Sequence[float]) -> Iterator[Claim]:
    """Yield the claims.

    Args:
        seed: root seed.
        gains: sizes of b_gamma.

    Yields:
        Some per scale and gain.
    """
    for index in range(3):
        yield from softmax_slope(generator(seed, "softmax slope", index), index)
    for beta in (0.05, 0.3, 0.5, 0.9, 0.99):
        yield lemma(beta)
    for scale, gain in itertools.product(SCALES, gains):
        yield from _layer(seed, scale, gain)


def softmax_slope(stream: np.random.Generator, index: int) -> Iterator[Claim]:
    """Yield claim 9: how fast a softmax's weights move.

    Args:
        stream: source of randomness.
        index: of the instance.

    Yields:
        The bound, and its exact value where one logit moves.
    """
    z = torch.from_numpy(stream.normal(size=5))
    w = torch.from_numpy(stream.normal(size=(9, 5)))
    alpha = (w @ z).softmax(0)
    moved = batched(lambda x: (w @ x).softmax(0), z).norm(dim=1).sum()
    bound = softmax_slope_bound(alpha.numpy(), w.norm(dim=1).numpy())
    yield at_most("softmax_slope", "B.4", float(moved), bound, instance=index)
    one = torch.zeros_like(w)
    one[3] = w[3]
    rest = torch.from_numpy(stream.normal(size=9))
    alpha = (one @ z + rest).softmax(0)
    moved = batched(lambda x: (one @ x + rest).softmax(0), z).norm(dim=1).sum()
    wanted = 2 * alpha[3] * (1 - alpha[3]) * w[3].norm()
    yield equal("softmax_slope_of_one", "B.4", float(moved), float(wanted), 1e-12, instance=index)


def lemma(beta: float) -> Claim:
    """Return Lemma B.6: sum of (tau + lag - k)^-beta / (k + 1) over tau <= k < tau + lag.

    Args:
        beta: in (0, 1).

    Returns:
        The largest left side over right side, sources up to 40, lags up to 400.
    """
    largest, lags = 0.0, np.arange(1, 401)
    for source in (0, 1, 2, 5, 10, 40):
        k = np.arange(source, source + 400)
        for lag in lags:
            own = k[:lag]
            left = ((source + lag - own).astype(float) ** -beta / (own + 1)).sum()
            largest = max(largest, left / loop_envelope(np.array(lag), beta))
    return at_most("convolution", "Lemma B.6", largest, convolution_constant(beta), beta=beta)


def _layer(seed: int, scale: float, gain: float) -> Iterator[Claim]:
    stream = generator(seed, "jacobians", repr(scale), repr(gain))
    layer = random_layer(WIDTH, 1, stream, scale, gain)
    x = torch.from_numpy(stream.normal(size=(LENGTH, WIDTH)))
    about = {"scale": scale, "gain": gain}

    def inner(u: Tensor) -> Tensor:
        return F.gelu(layer.in_proj(u[None]).chunk(2, dim=-1)[0])

    def logits(u: Tensor) -> Tensor:
        return layer.logits(inner(u))[0]

    def alpha(u: Tensor) -> Tensor:
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu()
        # Row 0 has no entry; its finite stand-in weighs nothing.
        rows = logits(u).masked_fill(later, -torch.inf)
        rows = torch.cat([torch.zeros_like(rows[:1]), rows[1:]]).softmax(-1)
        return torch.cat([torch.zeros_like(rows[:1]), rows[1:]])

    def f(u: Tensor) -> Tensor:
        return layer.attend(inner(u))[0]

    def gains(u: Tensor) -> Tensor:
        return layer.gains(inner(u))[0]

    B = gains(x)[:, None] * alpha(x)
    K = torch.linalg.inv(torch.eye(LENGTH, dtype=B.dtype) - B)
    s = K @ f(x)
    # Slopes: (t, ..., tau, channel).
    of_f, of_gain, of_alpha = one_by_one(f, x), batched(gains, x), batched(alpha, x)
    of_B = of_gain[:, None] * alpha(x)[..., None, None]
    of_B = of_B + gains(x)[:, None, None, None] * of_alpha
    inside = of_f + torch.einsum("tjuc,jd->tduc", of_B, s)
    wanted = torch.einsum("tr,rduc->tduc", K, inside)
    found = _slopes(layer, x)
    yield equal("jacobian_identity", "(38)", found, wanted, 1e-11, **about)
    later = torch.ones(LENGTH, LENGTH).triu(1)[:, None, :, None]
    yield equal("causality", "(38)", (found * later).numpy(), 0, 0.0, **about)
    sizes = torch.linalg.matrix_norm(found.transpose(1, 2), ord=2).numpy()
    constants = realised(of_f, of_gain, of_alpha, batched(logits, x), alpha(x), gains(x), f(x))
    yield from _bounded(sizes, constants, layer, x, about)
    yield from _attention(layer, x, of_f, about)


def _slopes(layer: Sessa, x: Tensor) -> Tensor:
    """Return d s_t / d x_tau through the layer's own solve, (t, channel, tau, channel)."""

    def solved(u: Tensor) -> Tensor:
        return layer.mix(F.gelu(layer.in_proj(u[None]).chunk(2, dim=-1)[0]))[0]

    return one_by_one(solved, x)


def realised(
    of_f: Tensor,
    of_gain: Tensor,
    of_alpha: Tensor,
    of_logits: Tensor,
    alpha: Tensor,
    gains: Tensor,
    f: Tensor,
) -> LoopConstants:
    """Return the constants of Theorem 23 at one input.

    Args:
        of_f: d f_t / d x_tau, (t, width, tau, width).
        of_gain: (t, tau, width).
        of_alpha: (t, j, tau, width).
        of_logits: (t, j, tau, width).
        alpha: (t, j).
        gains: (t).
        f: (t, width).
    """
    length = len(gains)
    t = torch.arange(length, dtype=f.dtype)
    earlier = torch.ones(length, length, dtype=f.dtype).tril(-1)
    f_norms = torch.linalg.matrix_norm(of_f.transpose(1, 2), ord=2)
    used = of_logits.norm(dim=-1) * torch.ones(length, length, dtype=f.dtype).tril(-1)[..., None]
    routes = torch.einsum("tj,tju->tu", alpha, used)
    own_alpha = of_alpha.norm(dim=-1).sum(1)
    own = torch.arange(length)
    gain_max = float(gains[1:].abs().max())
    return LoopConstants(
        gain_max,
        gain_max * float((t[:, None] * alpha).max()),
        float(f.norm(dim=-1).max()),
        float(((t + 1)[:, None] * f_norms * earlier).max()),
        float(f_norms[own, own].max()),
        float(((t + 1)[:, None] * routes * earlier).max()),
        float(own_alpha[own, own].max()),
        float(of_gain.norm(dim=-1)[own, own].max()),
    )


def _bounded(
    sizes: np.ndarray, constants: LoopConstants, layer: Sessa, x: Tensor, about: dict[str, float]
) -> Iterator[Claim]:
    """Claim 11: Theorem 23 on the loop's output, and B.7 on the block's."""
    t, tau = np.nonzero(np.tril(np.ones((LENGTH, LENGTH)), -1))
    bounds = loop_jacobian_bound(constants, t - tau)
    ratio = sizes[t, tau] if bounds is None else sizes[t, tau] / bounds
    applies = None if bounds is None else 1.0
    yield at_most("loop_jacobian", "Theorem 23", ratio.max(), applies, eta=constants.eta, **about)
    whole = one_by_one(lambda u: layer(u[None])[0], x).transpose(1, 2)
    blocks = torch.linalg.matrix_norm(whole, ord=2).numpy()
    gate = layer.in_proj(x).chunk(2, dim=-1)[1].norm(dim=-1).max()
    factor = float(gate * torch.linalg.norm(layer.out_proj.weight, ord=2))
    ratio = blocks[t, tau] if bounds is None else blocks[t, tau] / (factor * bounds)
    yield at_most("block_jacobian", "B.7", ratio.max(), applies, eta=constants.eta, **about)


def _attention(layer: Sessa, x: Tensor, of_f: Tensor, about: dict[str, float]) -> Iterator[Claim]:
    """Claim 11 of attention: Proposition 10i, on f of one head."""

    def parts(u: Tensor) -> tuple[Tensor, Tensor]:
        inner = F.gelu(layer.in_proj(u[None]).chunk(2, dim=-1)[0])
        return inner, layer.v_proj(inner)[0]

    def scores(u: Tensor) -> Tensor:
        inner = parts(u)[0]
        q, k = rotate(layer.q_proj(inner)), rotate(layer.k_proj(inner))
        scaled: Tensor = (q @ k.mT)[0] / WIDTH**0.5
        return scaled

    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    alpha = scores(x).masked_fill(later, -torch.inf).softmax(-1)
    values = parts(x)[1]
    of_values = torch.linalg.matrix_norm(
        batched(lambda u: parts(u)[1], x).transpose(1, 2), ord=2
    ).diagonal()
    of_logits = batched(scores, x).norm(dim=-1)
    sizes = torch.linalg.matrix_norm(of_f.transpose(1, 2), ord=2)
    t, tau = np.nonzero(np.tril(np.ones((LENGTH, LENGTH)), -1))
    # Of the logits of row t only the source's own moves with x_tau.
    moving = of_logits[t, tau, tau]
    weight = alpha[t, tau]
    bound = weight * of_values[tau] + 2 * moving * values.norm(dim=-1).max() * weight
    ratio = (sizes[t, tau] / bound).max()
    yield at_most("attention_jacobian", "Proposition 10i", float(ratio), 1.0, **about)
