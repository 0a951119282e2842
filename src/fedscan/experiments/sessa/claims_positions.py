"""Claims 14 to 16: positions, selection by rotary pairs, facts of GELU and LayerNorm (I, J)."""

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.experiments.sessa.claim import Claim, at_most, equal
from fedscan.experiments.sessa.constructed import (
    POSITION,
    POSITION_GAIN,
    POSITION_SCALE,
    WIDTH,
    WINDOW_SLOPE,
    blank,
    focused,
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
# LayerNorm's own, and larger ones, for which the scaffold's bound says more.
EPSILONS = (1e-5, 0.1, 1.0)
# Distance of neighbouring positions that are read back, where inputs are at most 1.
APART = 4.0
# Universality: lag copies of a scalar sequence of four tokens, and how near they must be.
COPIED, NEAR = 4, 1e-3
# Channels; the position's is that of ``constructed``.
CONSTANT, INPUT, FIRST_COPY, OUTPUT = 0, 2, 3, 6
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
    for eps in EPSILONS:
        yield scaffold(stream, eps)
    yield from universality(stream)


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
    yield from read_back(gain, stream)


def read_back(gain: float, stream: np.random.Generator) -> Iterator[Claim]:
    """Yield what is left of tokens behind a writer: the signal, and their position (4.12, 4.13).

    Args:
        gain: gamma.
        stream: of inputs, which a writer adds to.

    Yields:
        That other channels pass unchanged, and that interpolation between the intervals that
        the written channel lies in finds every position.
    """
    width, channel, c = 6, 2, uniform_response(gain, LENGTH)
    scale = APART / np.diff(c).min()
    x = torch.from_numpy(stream.uniform(-1, 1, (8, LENGTH, width)))
    with torch.no_grad():
        out = identity_block(positional_writer(width, channel, gain, scale), x).numpy()
    others = [one for one in range(width) if one != channel]
    yield equal("signal_passes", "(4.12)", out[..., others], x[..., others], 0.0, gain=gain)
    ends = (scale * c[:, None] + [-1.0, 1.0]).flatten()
    read = np.interp(out[..., channel], ends, np.repeat(np.arange(LENGTH), 2))
    wanted = np.broadcast_to(np.arange(LENGTH), read.shape)
    yield equal("position_is_read", "(4.13)", read, wanted, 1e-9, gain=gain)


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
    for small in (0.1, 0.01, 0.001):
        error = (2 * F.gelu(small * u) / small - u).abs().max()
        # Phi is off 1/2 by at most its slope there (ours).
        bound = small * float(u.max()) ** 2 * math.sqrt(2 / math.pi)
        yield at_most("gelu_small", "J", float(error), bound, slope=small)


def scaffold(stream: np.random.Generator, eps: float) -> Claim:
    """Return claim 16: LayerNorm of a scaffolded vector nearly is linear (J.1).

    Args:
        stream: of vectors.
        eps: of LayerNorm.
    """
    dynamic, balanced, scale, radius = 4, 60, 3.0, 0.5
    m = dynamic + balanced
    u = stream.normal(size=(500, dynamic))
    u *= radius * stream.uniform(0, 1, (500, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
    fixed = np.tile([scale, -scale], balanced // 2)
    x = torch.from_numpy(np.hstack([u, np.tile(fixed, (500, 1))]))
    found = F.layer_norm(x, (m,), eps=eps)[:, :dynamic].numpy()
    sigma = math.sqrt(balanced * scale**2 / m + eps)
    error = np.linalg.norm(found - u / sigma, axis=1).max()
    bound = scaffold_error_bound(dynamic, balanced, radius, eps)
    return at_most("scaffold_norm", "J.1", error, bound, eps=eps)


def universality(stream: np.random.Generator) -> Iterator[Claim]:
    """Yield what of Theorem 14's proof is computed: its network, on scalars, at four tokens.

    The theorem claims no rate. A layer writes positions; three copy x_{t-1}, x_{t-2}, x_{t-3} to
    channels of their own by rotary selection; one more adds those that exist, by position. What is
    approximated is a causal filter.

    Args:
        stream: of the sequences and the filter.

    Yields:
        Largest error of the copies, and of the filter's output.
    """
    values = torch.from_numpy(stream.uniform(-1, 1, (64, COPIED)))
    taps = stream.uniform(-1, 1, COPIED)
    x = torch.zeros(64, COPIED, WIDTH, dtype=torch.float64)
    x[..., CONSTANT], x[..., INPUT] = 1.0, values
    positions = POSITION_SCALE * uniform_response(POSITION_GAIN, COPIED)
    writing = positional_writer(WIDTH, POSITION, POSITION_GAIN, POSITION_SCALE)
    copying = [copier(lag, NEAR / 4) for lag in range(1, COPIED)]
    for layer in (writing, *copying, readout(taps, positions)):
        x = identity_block(layer, x)
    worst, wanted = 0.0, taps[0] * values
    for lag in range(1, COPIED):
        source = values[:, : COPIED - lag]
        copy = x[:, lag:, FIRST_COPY + lag - 1]
        worst = max(worst, float((copy - source).abs().max()))
        wanted[:, lag:] += taps[lag] * source
    yield at_most("lag_copies", "Theorem 14", worst, NEAR, tokens=COPIED)
    # Each copy enters times its tap.
    allowed = NEAR * float(np.abs(taps[1:]).sum())
    error = float((x[..., OUTPUT] - wanted).abs().max())
    yield at_most("readout", "Theorem 14", error, allowed, tokens=COPIED)


def copier(lag: int, delta: float) -> Sessa:
    """Return a layer that writes the input of ``lag`` positions before to that lag's channel.

    Args:
        lag: from 1.
        delta: weight that may miss.
    """
    layer = blank(WIDTH)
    apart = 1 - max(math.cos(s) for s in range(1, COPIED))
    strength = math.log((COPIED - 1) / delta) * math.sqrt(WIDTH) / apart
    c = math.sqrt(strength) / gelu(1.0)
    layer.in_proj.weight[0, CONSTANT] = 1.0
    layer.in_proj.weight[1, INPUT], layer.in_proj.weight[2, INPUT] = PAIR_SLOPE, -PAIR_SLOPE
    layer.k_proj.weight[0, 0] = c
    layer.q_proj.weight[0, 0] = c * math.cos(lag)
    layer.q_proj.weight[WIDTH // 2, 0] = -c * math.sin(lag)
    layer.v_proj.weight[0, 1], layer.v_proj.weight[0, 2] = 1 / PAIR_SLOPE, -1 / PAIR_SLOPE
    layer.in_proj.weight[WIDTH, CONSTANT] = 1.0
    layer.out_proj.weight[FIRST_COPY + lag - 1, 0] = 1.0
    return layer


def readout(taps: np.ndarray, positions: np.ndarray) -> Sessa:
    """Return a layer that writes the sum of taps times the copies that exist.

    Args:
        taps: of the filter, (tokens).
        positions: what the position's channel holds, (tokens).
    """
    slots: dict[int, tuple[dict[int, float], float]] = {}
    for lag in range(1, len(taps)):
        edge = (positions[lag - 1] + positions[lag]) / 2
        for slot, start in enumerate((edge, edge + 1 / WINDOW_SLOPE), 2 * (lag - 1)):
            slots[slot] = ({POSITION: WINDOW_SLOPE}, -WINDOW_SLOPE * start)
    own = 2 * (len(taps) - 1)
    slots[own] = ({}, 1.0)
    layer = focused(slots)
    for lag in range(1, len(taps)):
        # A step of two GELUs: 0 before there is a copy, 1 from then on.
        for slot, sign in ((2 * lag - 2, 1), (2 * lag - 1, -1)):
            layer.in_proj.weight[WIDTH + slot, FIRST_COPY + lag - 1] = 1.0
            layer.out_proj.weight[OUTPUT, slot] = sign * taps[lag]
    layer.in_proj.weight[WIDTH + own, INPUT] = 1.0
    layer.out_proj.weight[OUTPUT, own] = taps[0] / gelu(1.0)
    return layer
