"""Sessa layers whose weights are set by hand, and random ones, in float64."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedscan.models.sessa import Sessa, construct
from fedscan.theory.feedback import uniform_response

GAIN_MAX = 0.999
# Of layers set by hand: any gain below 1 that is asked for can be reached.
ANY_GAIN = 1 - 2.0**-50


def random_layer(
    width: int, heads: int, stream: np.random.Generator, scale: float = 1.0, gain: float = 0.5
) -> Sessa:
    """Return a layer of the authors' form with random values.

    Args:
        width: D.
        heads: of the forward attention.
        stream: source of randomness.
        scale: of queries' and keys' weights, forward and feedback, and of the gain's.
        gain: b_gamma, its largest size.

    Returns:
        In float64.
    """
    layer = Sessa(width, heads, "authors", GAIN_MAX).double()
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(int(stream.integers(2**31))))
        for part in (layer.q_proj, layer.k_proj, layer.feedback_proj, layer.gain_proj):
            part.weight *= scale
        layer.gain_bias.fill_(stream.uniform(-gain, gain))
    return layer.requires_grad_(False)


def blank(width: int) -> Sessa:
    """Return a layer with one head and all values zero: uniform routing, no gain.

    Args:
        width: D, even.
    """
    layer = Sessa(width, 1, "authors", ANY_GAIN).double().requires_grad_(False)
    for tensor in layer.parameters():
        tensor.zero_()
    return layer


def set_gain(layer: Sessa, gain: float) -> None:
    """Set one gain for all tokens.

    Args:
        layer: changed in place.
        gain: below the layer's largest in magnitude.
    """
    layer.gain_bias.fill_(math.atanh(gain / layer.gain_max))


def identity_block(layer: nn.Module, x: Tensor) -> Tensor:
    """Return a residual block without norm: x + layer(x)."""
    added: Tensor = layer(x)
    return x + added


def gelu(x: float) -> float:
    """Return x Phi(x)."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def positional_writer(width: int, channel: int, gain: float, scale: float) -> Sessa:
    """Return a layer that writes the position, whatever its input (I.8).

    Args:
        width: D.
        channel: that is written.
        gain: gamma of the loop.
        scale: lambda.

    Returns:
        x_t + layer(x)_t = x_t + scale c_t e_channel, c_t of ``uniform_response``.
    """
    layer = blank(width)
    layer.in_proj.bias[0] = 1.0
    layer.in_proj.bias[width] = 1.0
    layer.v_proj.weight[0, 0] = 1 / gelu(1.0)
    layer.out_proj.weight[channel, 0] = scale
    set_gain(layer, gain)
    return layer


# Channels of the constructed retrieval. The theorem needs seven; rotary pairs make it eight.
WIDTH = 8
SIGNAL, POSITION, PROFILE, SOURCE, GATE = range(5)
# Sizes of the construction, which the reference on the page found to work.
POSITION_GAIN, POSITION_SCALE = 0.6, 400.0
FOCUS, WINDOW_SLOPE, PAIR_SLOPE = 0.05, 200.0, 8.0


def focused(pairs: Mapping[int, tuple[dict[int, float], float]]) -> Sessa:
    """Return a layer whose forward attention sees its own token alone, by the position's channel.

    Args:
        pairs: slot of a -> (weights by channel, bias); slot 7 is the position's.
    """
    layer = blank(WIDTH)
    for slot, (weights, bias) in pairs.items():
        for channel, weight in weights.items():
            layer.in_proj.weight[slot, channel] = weight
        layer.in_proj.bias[slot] = bias
    # Positions are large: GELU leaves them alone. The slowest pair hardly turns.
    layer.in_proj.weight[7, POSITION] = 1.0
    layer.q_proj.weight[WIDTH // 2 - 1, 7] = FOCUS
    layer.k_proj.weight[WIDTH // 2 - 1, 7] = 1.0
    layer.v_proj.weight.copy_(torch.eye(WIDTH, dtype=torch.float64))
    return layer


def _pair(channel: int, bias: float = 0.0) -> list[tuple[dict[int, float], float]]:
    """Return two slots whose GELUs differ by ``PAIR_SLOPE`` times (channel + bias), exactly."""
    return [({channel: s * PAIR_SLOPE}, s * PAIR_SLOPE * bias) for s in (1.0, -1.0)]


def selector(positions: np.ndarray, source: int, leak: float) -> Sessa:
    """Return a layer that writes the gate: 1 at the source, the leak elsewhere (K.6).

    Args:
        positions: what the position's channel holds, (length).
        source: tau*, neither first nor last.
        leak: epsilon.
    """
    low, high = (positions[source + k] + positions[source + k + 1] for k in (-1, 0))
    edges = (low / 2, low / 2 + 1 / WINDOW_SLOPE, high / 2, high / 2 + 1 / WINDOW_SLOPE)
    slots = {
        slot: ({POSITION: WINDOW_SLOPE}, -WINDOW_SLOPE * edge) for slot, edge in enumerate(edges)
    }
    layer = focused(slots)
    for slot, sign in enumerate((1, -1, -1, 1)):
        layer.in_proj.bias[WIDTH + slot] = 1.0
        layer.out_proj.weight[GATE, slot] = sign * (1 - leak)
    layer.out_proj.bias[GATE] = leak
    return layer


def multiplier() -> Sessa:
    """Return a layer that multiplies the signal by the gate (K.11)."""
    layer = focused(dict(enumerate(_pair(GATE, -1.0))))
    for slot, sign in ((0, 1), (1, -1)):
        layer.in_proj.weight[WIDTH + slot, SIGNAL] = 1.0
        layer.out_proj.weight[SIGNAL, slot] = sign / PAIR_SLOPE
    return layer


def source_writer() -> Sessa:
    """Return a layer that sets the source's channel to profile times signal."""
    layer = focused(dict(enumerate([*_pair(PROFILE), *_pair(SOURCE)])))
    for slot, sign in ((0, 1), (1, -1)):
        layer.in_proj.weight[WIDTH + slot, SIGNAL] = 1.0
        layer.out_proj.weight[SOURCE, slot] = sign / PAIR_SLOPE
    for slot, sign in ((2, -1), (3, 1)):
        layer.in_proj.bias[WIDTH + slot] = 1.0
        layer.out_proj.weight[SOURCE, slot] = sign / PAIR_SLOPE
    return layer


def diffuse_adder(beta: float) -> Sessa:
    """Return a layer that adds Theta U source to the signal: uniform routing, gain 1 - beta."""
    layer = blank(WIDTH)
    for slot, (weights, _) in enumerate(_pair(SOURCE)):
        layer.in_proj.weight[slot, SOURCE] = weights[SOURCE]
    layer.v_proj.weight[0, 0], layer.v_proj.weight[0, 1] = 1 / PAIR_SLOPE, -1 / PAIR_SLOPE
    layer.in_proj.bias[WIDTH] = 1.0
    layer.out_proj.weight[SIGNAL, 0] = 1.0
    set_gain(layer, 1 - beta)
    return layer


def retrieval_stack(
    beta: float, layers: int, source: int, length: int, leak: float
) -> nn.ModuleList:
    """Return the layers of Theorem 12's construction.

    Args:
        beta: decay exponent.
        layers: macro-layers k.
        source: tau*.
        length: tokens.
        leak: epsilon, the gate elsewhere.

    Returns:
        Position, gate, multiplication, then two layers per macro-layer.
    """
    positions = POSITION_SCALE * uniform_response(POSITION_GAIN, length)
    macro = [layer for _ in range(layers) for layer in (source_writer(), diffuse_adder(beta))]
    return nn.ModuleList([
        positional_writer(WIDTH, POSITION, POSITION_GAIN, POSITION_SCALE),
        selector(positions, source, leak),
        multiplier(),
        *macro,
    ])  # fmt: skip


def retrieval_scores(stack: nn.ModuleList, beta: float, length: int, seed: int = 0) -> np.ndarray:
    """Return d signal_t / d signal_tau of a stack, by autograd.

    Args:
        stack: result of ``retrieval_stack``.
        beta: decay exponent, of the profile.
        length: tokens.
        seed: of the signal, on which nothing depends.

    Returns:
        (length, length).
    """
    signal = torch.from_numpy(np.random.default_rng(seed).normal(size=length)).requires_grad_()
    x = torch.zeros(1, length, WIDTH, dtype=torch.float64)
    x[0, :, PROFILE] = torch.arange(1, length + 1, dtype=torch.float64) ** (1 - beta)
    columns = torch.eye(WIDTH, dtype=torch.float64)[SIGNAL]
    with torch.enable_grad():
        x = x + signal[None, :, None] * columns
        for layer in stack:
            x = identity_block(layer, x)
        out = x[0, :, SIGNAL]
    rows = [torch.autograd.grad(one, signal, retain_graph=True)[0] for one in out.unbind()]
    return torch.stack(rows).numpy()
