"""Layers of a Mamba2 language model applied over depth, in the forms that consensus is studied in.

Not the training forward pass: that has no switches. One layer is u = RMSNorm(x), the projections,
the convolution, the recurrence (``models.ssd``), the gate, the norm within groups, and the output
projection; a form removes the gate (the norm after it stays), the SiLU on B and C, or the
convolution (Silvestre et al., section VI).

On a CPU a layer is applied to one draw after the other, so that a draw's tokens do not depend on
which others are computed beside it: a library may round a larger product differently. All draws
pass a layer before the next one, whose weights are then read once.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedscan.models.language_model import Block, LanguageModel
from fedscan.models.mamba2 import EPS, Mamba2
from fedscan.models.ssd import ssd


class Form(NamedTuple):
    """How a layer is applied; the default is the model's own way.

    Attributes:
        gate: share g of the gate: y is multiplied by (1 - g) + g silu(z).
        silu: whether B and C pass a SiLU; x always does.
        conv: whether x, B and C are convolved along the sequence (and have the convolution's bias).
    """

    gate: float = 1.0
    silu: bool = True
    conv: bool = True


class Update(NamedTuple):
    """How tokens move.

    Attributes:
        tau: factor of the layer's output.
        sphere: whether tokens are kept at norm sqrt(n) after every layer.
    """

    tau: float = 1.0
    sphere: bool = False


class MixerLayer(NamedTuple):
    """The weights of one pre-norm Mamba2 layer; rows of in_proj apart, so that z may be left out.

    Attributes:
        norm: scale of the norm before the mixer, (n).
        gate: in_proj's rows of z, (d_inner, n).
        selective: in_proj's rows of x, B, C and dt, (d_inner + 2 groups d_state + heads, n).
        conv_weight: (channels, 1, taps).
        conv_bias: (channels).
        dt_bias: (heads).
        decay_rates: A, negative, (heads).
        skip: D, (heads).
        gated_norm: scale of the norm after the gate, (d_inner).
        out: (n, d_inner).
        groups: groups of heads that share B and C.
        d_state: state size m.
        chunk: chunk length of the recurrence.
    """

    norm: Tensor
    gate: Tensor
    selective: Tensor
    conv_weight: Tensor
    conv_bias: Tensor
    dt_bias: Tensor
    decay_rates: Tensor
    skip: Tensor
    gated_norm: Tensor
    out: Tensor
    groups: int
    d_state: int
    chunk: int


class Applied(NamedTuple):
    """What a layer makes of tokens.

    Attributes:
        output: what is added, (draws, tokens, n).
        q_layer: C_i . B_i as they enter the recurrence, mean over groups, (draws, tokens).
        q_token: f(W_C u_i) . f(W_B u_i), before any convolution, (draws, tokens).
        step_sizes: mean over tokens of Delta, (draws, heads); None where channels have their own.
    """

    output: Tensor
    q_layer: Tensor
    q_token: Tensor
    step_sizes: Tensor | None


class Position(NamedTuple):
    """Tokens at one depth.

    Attributes:
        depth: layers applied.
        tokens: (draws, tokens, n).
        applied: what the last layer made; None at depth 0.
    """

    depth: int
    tokens: Tensor
    applied: Applied | None


Layer = Callable[[Tensor], Applied]


def mixer_layer(block: Block) -> MixerLayer:
    """Return the weights of a block, without gradients.

    Args:
        block: pre-norm block around a Mamba2 mixer.

    Returns:
        Views where the layout allows it.

    Raises:
        TypeError: if its mixer is attention, which has neither gate nor interaction term.
    """
    mixer = block.mixer
    if not isinstance(mixer, Mamba2):
        raise TypeError(f"no Mamba2 mixer but {type(mixer).__name__}")
    rows = mixer.in_proj.weight.detach()
    return MixerLayer(
        norm=block.norm.weight.detach(),
        gate=rows[: mixer.d_inner],
        selective=rows[mixer.d_inner :],
        conv_weight=mixer.conv1d.weight.detach(),
        conv_bias=mixer.conv1d.bias.detach(),
        dt_bias=mixer.dt_bias.detach(),
        decay_rates=mixer.decay_rates().detach(),
        skip=mixer.D.detach(),
        gated_norm=mixer.norm.weight.detach(),
        out=mixer.out_proj.weight.detach(),
        groups=mixer.ngroups,
        d_state=mixer.d_state,
        chunk=mixer.chunk_size,
    )


def mixer_layers(model: LanguageModel) -> list[MixerLayer]:
    """Return the weights of all layers of a model.

    Args:
        model: its mixers are Mamba2.

    Returns:
        One entry per layer.

    Raises:
        TypeError: if one of its mixers is attention.
    """
    return [mixer_layer(block) for block in model.backbone.layers]


def apply_mixer(tokens: Tensor, layer: MixerLayer, form: Form) -> Applied:
    """Apply one Mamba2 layer in a form.

    Args:
        tokens: (draws, tokens, n), in the dtype of the weights.
        layer: weights.
        form: how it is applied.

    Returns:
        Output, interaction terms and step sizes.
    """
    heads, channels = len(layer.dt_bias), len(layer.conv_bias)
    inner = len(layer.gated_norm)
    per_group = layer.groups, layer.d_state
    u = F.rms_norm(tokens, (tokens.shape[-1],), layer.norm, EPS)
    raw, dt = F.linear(u, layer.selective).split([channels, heads], dim=-1)
    mixed = _convolve(raw, layer.conv_weight, layer.conv_bias) if form.conv else raw
    x = F.silu(mixed[..., :inner])
    B, C = _maps(mixed[..., inner:], per_group, form.silu)
    step_sizes = F.softplus(dt + layer.dt_bias)
    y = ssd(
        x.unflatten(-1, (heads, -1)), step_sizes, layer.decay_rates, B, C, layer.skip, layer.chunk
    ).flatten(2)
    if form.gate:
        z = F.silu(F.linear(u, layer.gate))
        y = y * (z if form.gate == 1 else z.mul_(form.gate).add_(1 - form.gate))
    grouped = y.unflatten(-1, (layer.groups, -1))
    normed = F.rms_norm(grouped, (grouped.shape[-1],), None, EPS).flatten(-2).mul_(layer.gated_norm)
    literal = _maps(raw[..., inner:], per_group, form.silu) if form.conv else (B, C)
    return Applied(
        output=F.linear(normed, layer.out),
        q_layer=_interaction(B, C),
        q_token=_interaction(*literal),
        step_sizes=step_sizes.mean(1),
    )


def in_turn(layers: Iterable[MixerLayer], form: Form) -> Iterator[Layer]:
    """Return an endless sequence that visits layers in turn.

    Args:
        layers: the weights; one of them: that layer is repeated.
        form: how they are applied.

    Yields:
        Functions of tokens.
    """
    for layer in itertools.cycle(layers):
        yield lambda tokens, layer=layer: apply_mixer(tokens, layer, form)


def trajectory(
    start: Tensor, layers: Iterable[Layer], depth: int, update: Update
) -> Iterator[Position]:
    """Apply layers to tokens, one after the other.

    Args:
        start: (draws, tokens, n).
        layers: at least ``depth`` functions of tokens.
        depth: how many are applied.
        update: how tokens move.

    Yields:
        The tokens at depths 0 .. ``depth``.
    """
    tokens = to_sphere(start) if update.sphere else start
    yield Position(0, tokens, None)
    for index, layer in enumerate(itertools.islice(layers, depth), 1):
        applied = _apply(layer, tokens)
        tokens = torch.add(tokens, applied.output, alpha=update.tau)
        tokens = to_sphere(tokens) if update.sphere else tokens
        yield Position(index, tokens, applied)


def _apply(layer: Layer, tokens: Tensor) -> Applied:
    if tokens.device.type != "cpu":
        return layer(tokens)
    output, q_layer, q_token, steps = zip(*map(layer, tokens.split(1)), strict=True)
    return Applied(
        torch.cat(output),
        torch.cat(q_layer),
        torch.cat(q_token),
        None if steps[0] is None else torch.cat(steps),
    )


def to_sphere(tokens: Tensor) -> Tensor:
    """Scale tokens to norm sqrt(n), a root mean square of 1.

    Args:
        tokens: (..., n).

    Returns:
        The same shape; a zero token becomes NaN, since it has no direction.
    """
    norm = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    return tokens * (math.sqrt(tokens.shape[-1]) / norm)


def _maps(mixed: Tensor, per_group: tuple[int, int], silu: bool) -> tuple[Tensor, Tensor]:
    """Return B and C, (draws, tokens, groups, d_state)."""
    B, C = (F.silu(mixed) if silu else mixed).chunk(2, dim=-1)
    return B.unflatten(-1, per_group), C.unflatten(-1, per_group)


def _interaction(B: Tensor, C: Tensor) -> Tensor:
    return (B * C).sum(-1).mean(-1)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve channels with the present and earlier tokens, without causal_conv's activation."""
    taps = weight.squeeze(1).flip(-1).t().contiguous()
    y = torch.addcmul(bias, x, taps[0])
    for back in range(1, min(len(taps), x.shape[1])):
        y[:, back:].addcmul_(x[:, :-back], taps[back])
    return y
