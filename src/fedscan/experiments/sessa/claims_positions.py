"""Claims 14 to 16: positions, selection by rotary pairs, facts of GELU and LayerNorm (I, J)."""

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.experiments.sessa.claim import Claim, at_most, equal
from fedscan.experiments.sessa.constructed import (
    blank,
    gelu,
    identity_block,
    positional_writer,
)
from fedscan.experiments.sessa.profiles import routing
from fedscan.models.sessa import Sessa
from fedscan.seeds import generator
from fedscan.theory.envelopes import scaffold_error_bound
from fedscan.theory.feedback import uniform_response

LENGTH = 40
EPS = 1e-5
# Universality: lag copies of a scalar sequence of four tokens, and how near they must be.
COPIED, NEAR = 4, 1e-3
COPY_WIDTH, CONSTANT, INPUT, FIRST_COPY = 6, 0, 1, 2
PAIR_SLOPE = 4.0


def claims(seed: int, gains: tuple[float, ...]) -> Iterator[Claim]:
    """Yield the claims.

    Args:
        seed: root seed.
        gains: of positional writers.

    Yields:
        In the paper's order.
    """
    stream = generator(seed, "positions")
    for gain in gains:
        yield from writer(gain, stream)
    yield from rotary(stream)
    yield from gelu_facts()
    for index in range(3):
        yield scaffold(stream, index)
    yield lag_copies(stream)


def writer(gain: float, stream: np.random.Generator) -> Iterator[Claim]:
    """Yield claim 14: a layer writes c_t, whatever its input and norm (I.8).

    Args:
        gain: gamma.
        stream: of inputs.
    """
    width, scale = 6, 3.0
    layer, c = positional_writer(width, 2, gain, scale), uniform_response(gain, LENGTH)
    x = torch.from_numpy(stream.normal(size=(2, LENGTH, width)))
    for name, norm in (("none", nn.Identity()), ("layer", nn.LayerNorm(width).double())):
        with torch.no_grad():
            found = layer(norm(x))
        wanted = torch.zeros_like(found)
        wanted[..., 2] = torch.from_numpy(scale * c)
        yield equal("positional_writer", "I.8", found, wanted, 1e-9, gain=gain, norm=name)
    # Intervals between midpoints tell every position apart.
    middles = (c[1:] + c[:-1]) / 2
    yield equal("position_is_read", "(4.13)", np.searchsorted(middles, c), np.arange(LENGTH), 0.0,
                gain=gain)  # fmt: skip


def rotary(stream: np.random.Generator) -> Iterator[Claim]:
    """Yield claim 15: one rotary pair selects a lag, and what selecting costs (I.5, I.16, I.4).

    Args:
        stream: of values.
    """
    length, delta, width = 24, 1e-3, 2
    apart = 1 - max(math.cos(s) for s in range(1, length))
    strength = math.log((length - 1) / delta) * math.sqrt(width) / apart
    for lag in (0, 1, 5):
        layer = blank(width)
        layer.in_proj.bias[0] = 1.0
        c = math.sqrt(strength) / gelu(1.0)
        layer.k_proj.weight[0, 0] = c
        # Turned back by the lag: halves of a head are a pair.
        layer.q_proj.weight[0, 0] = c * math.cos(lag)
        layer.q_proj.weight[1, 0] = -c * math.sin(lag)
        weights = _weights(layer, torch.zeros(1, length, width, dtype=torch.float64))
        chosen = weights[np.arange(lag, length), np.arange(length - lag)]
        yield at_most("rotary_selection", "I.5, I.16", (1 - chosen).max(), delta, lag=lag)
        values = stream.normal(size=(length, 3))
        wrong = np.linalg.norm((weights @ values)[lag:] - values[: length - lag], axis=1).max()
        most = 2 * delta * np.linalg.norm(values, axis=1).max()
        yield at_most("mixture_error", "I.4", wrong, most, lag=lag)


def _weights(layer: Sessa, x: Tensor) -> np.ndarray:
    return np.asarray(routing(layer, x).forward[0, 0].numpy())


def gelu_facts() -> Iterator[Claim]:
    """Yield claim 16: GELU nearly is a ramp, a difference of two is linear, a small one halves."""
    u = torch.linspace(-5, 5, 20001, dtype=torch.float64)
    for slope in (1.0, 10.0, 200.0):
        error = (F.gelu(slope * u) / slope - u.clamp(min=0)).abs().max()
        bound = 1 / (slope * math.sqrt(2 * math.pi))
        yield at_most("gelu_ramp", "J", float(error), bound, slope=slope)
        pair = (F.gelu(slope * u) - F.gelu(-slope * u)) / slope
        yield equal("gelu_pair", "J", pair, u, 1e-12, slope=slope)
    small = 1e-7
    yield equal("gelu_small", "J", 2 * F.gelu(small * u) / small, u, 1e-4, slope=small)


def scaffold(stream: np.random.Generator, index: int) -> Claim:
    """Return claim 16: LayerNorm of a scaffolded vector nearly is linear (J.1).

    Args:
        stream: of vectors.
        index: of the instance.
    """
    dynamic, balanced, scale, radius = 4, 60, 3.0, 0.5
    m = dynamic + balanced
    u = stream.normal(size=(500, dynamic))
    u *= radius * stream.uniform(0, 1, (500, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
    fixed = np.tile([scale, -scale], balanced // 2)
    x = torch.from_numpy(np.hstack([u, np.tile(fixed, (500, 1))]))
    found = F.layer_norm(x, (m,), eps=EPS)[:, :dynamic].numpy()
    sigma = math.sqrt(balanced * scale**2 / m + EPS)
    error = np.linalg.norm(found - u / sigma, axis=1).max()
    bound = scaffold_error_bound(dynamic, balanced, radius, EPS)
    return at_most("scaffold_norm", "J.1", error, bound, instance=index)


def lag_copies(stream: np.random.Generator) -> Claim:
    """Return the part of Theorem 14's proof that is computed: copies of a sequence at every lag.

    The theorem claims no rate. Three real layers, loops off, copy x_{t-1}, x_{t-2}, x_{t-3} to
    channels of their own by rotary selection.

    Args:
        stream: of the sequences.
    """
    values = torch.from_numpy(stream.uniform(-1, 1, (64, COPIED)))
    x = torch.zeros(64, COPIED, COPY_WIDTH, dtype=torch.float64)
    x[..., CONSTANT], x[..., INPUT] = 1.0, values
    for lag in range(1, COPIED):
        x = identity_block(copier(lag, NEAR / 4), x)
    worst = 0.0
    for lag in range(1, COPIED):
        copy = x[:, lag:, FIRST_COPY + lag - 1]
        worst = max(worst, float((copy - values[:, : COPIED - lag]).abs().max()))
    return at_most("lag_copies", "Theorem 14", worst, NEAR, tokens=COPIED)


def copier(lag: int, delta: float) -> Sessa:
    """Return a layer that writes the input of ``lag`` positions before to that lag's channel.

    Args:
        lag: from 1.
        delta: weight that may miss.
    """
    layer = blank(COPY_WIDTH)
    apart = 1 - max(math.cos(s) for s in range(1, COPIED))
    strength = math.log((COPIED - 1) / delta) * math.sqrt(COPY_WIDTH) / apart
    c = math.sqrt(strength) / gelu(1.0)
    half = COPY_WIDTH // 2
    layer.in_proj.weight[0, CONSTANT] = 1.0
    layer.in_proj.weight[1, INPUT], layer.in_proj.weight[2, INPUT] = PAIR_SLOPE, -PAIR_SLOPE
    layer.k_proj.weight[0, 0] = c
    layer.q_proj.weight[0, 0] = c * math.cos(lag)
    layer.q_proj.weight[half, 0] = -c * math.sin(lag)
    layer.v_proj.weight[0, 1], layer.v_proj.weight[0, 2] = 1 / PAIR_SLOPE, -1 / PAIR_SLOPE
    layer.in_proj.weight[COPY_WIDTH, CONSTANT] = 1.0
    layer.out_proj.weight[FIRST_COPY + lag - 1, 0] = 1.0
    return layer
