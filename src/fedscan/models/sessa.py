"""Sessa's layer: attention whose output passes a feedback loop of attention (Horbatko 2026).

Sections 3.1 and 3.2, with what only the released implementation says: heads of the forward
attention with an output projection, biases, initial values. The layer is everything behind the
norm: [a | g] = W_in u, f = attention of GELU(a), s = f + gain * feedback attention of s, out =
W_out (s * g). The feedback attention is one head of the whole width, without positions.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.attention import rotate
from fedscan.models.draws import linear
from fedscan.models.sequence_shape import Form
from fedscan.models.triangular import feedback

Kernels = Literal["torch", "triton"]
# b_gamma of a new layer: gains start near tanh(1) of the largest.
INITIAL_GAIN_BIAS = 1.0


class Sessa(nn.Module):
    """Gated layer around the mixer: (batch, length, d_model) -> the same shape."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        form: Form = "authors",
        gain_max: float = 0.999,
        loop: bool = True,
        selective_gain: bool = True,
        selective_routing: bool = True,
        feedback_rotary: bool = False,
        kernels: Kernels = "torch",
    ) -> None:
        """Create parameters without values.

        Args:
            d_model: width D.
            heads: of the forward attention; they divide D into even widths.
            form: 'authors': biases in all projections; 'paper': in none of the mixer's.
            gain_max: largest magnitude of a gain.
            loop: whether there is the feedback attention; without it s = f.
            selective_gain: whether a gain depends on its token, or is one number.
            selective_routing: whether the feedback attention has queries and keys, or is uniform.
            feedback_rotary: whether these have rotary positions.
            kernels: who solves the loop: 'torch', or 'triton' on a GPU.

        Raises:
            ValueError: if a head's width is not even, or a gain could reach 1.
        """
        super().__init__()
        if d_model % (2 * heads):
            raise ValueError(f"d_model {d_model} is no multiple of 2 * heads = {2 * heads}")
        if not 0 < gain_max < 1 and (form, gain_max) != ("paper", 1):
            raise ValueError(f"gain_max {gain_max} is not in (0, 1); 1 is the paper's form alone")
        self.heads, self.gain_max, self.loop = heads, gain_max, loop
        self.selective_gain, self.selective_routing = selective_gain, selective_routing
        self.feedback_rotary, self.kernels = feedback_rotary, kernels
        bias = form == "authors"
        self.in_proj = nn.Linear(d_model, 2 * d_model)
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.k_proj = nn.Linear(d_model, d_model, bias=bias)
        self.v_proj = nn.Linear(d_model, d_model, bias=bias)
        # One head needs no mixing of heads.
        self.forward_proj = nn.Linear(d_model, d_model, bias=False) if heads > 1 else None
        if loop:
            if selective_routing:
                self.feedback_proj = nn.Linear(d_model, 2 * d_model, bias=bias)
            if selective_gain:
                self.gain_proj = nn.Linear(d_model, 1, bias=False)
            self.gain_bias = nn.Parameter(torch.empty(1))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix along the sequence.

        Args:
            hidden: normalised, (batch, length, d_model).

        Returns:
            (batch, length, d_model).
        """
        inner, gate = self.in_proj(hidden).chunk(2, dim=-1)
        s = self.mix(F.gelu(inner))
        return self.out_proj(s.to(gate.dtype) * gate)

    def mix(self, inner: Tensor) -> Tensor:
        """Return s of the activated inputs.

        Args:
            inner: GELU(a), (batch, length, d_model).

        Returns:
            (batch, length, d_model), float32 or wider with the loop.
        """
        f = self.attend(inner)
        return SOLVERS[self.kernels](self, inner, f) if self.loop else f

    def attend(self, inner: Tensor) -> Tensor:
        """Return f, causal attention with rotary positions.

        Args:
            inner: (batch, length, d_model).

        Returns:
            (batch, length, d_model).
        """
        shape = (self.heads, -1)
        q, k, v = (
            project(inner).unflatten(-1, shape).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        mixed = mixed.transpose(1, 2).flatten(2)
        return mixed if self.forward_proj is None else self.forward_proj(mixed)

    def logits(self, inner: Tensor) -> Tensor:
        """Return the feedback attention's scaled logits.

        Args:
            inner: (batch, length, d_model).

        Returns:
            (batch, length, length); those with j >= t are not used.
        """
        q, k = self.routes(inner)
        return (q @ k.transpose(1, 2)) / math.sqrt(q.shape[-1])

    def routes(self, inner: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Return the feedback attention's queries and keys, not scaled.

        Args:
            inner: (batch, length, d_model).
            first: position of the first of them.

        Returns:
            Two of (batch, length, key width); zeros of width 1 for uniform routing.
        """
        if not self.selective_routing:
            zeros = inner.new_zeros(*inner.shape[:2], 1)
            return zeros, zeros
        q, k = self.feedback_proj(inner).chunk(2, dim=-1)
        if self.feedback_rotary:
            q, k = (rotate(part.unsqueeze(1), first).squeeze(1) for part in (q, k))
        return q, k

    def gains(self, inner: Tensor) -> Tensor:
        """Return gamma = gain_max tanh(w . a + b).

        Args:
            inner: (batch, length, d_model).

        Returns:
            (batch, length), float32 or wider.
        """
        with torch.autocast(inner.device.type, enabled=False):
            if not self.selective_gain:
                return (self.gain_max * torch.tanh(self.gain_bias)).expand(inner.shape[:2])
            wide = inner.to(self.gain_bias.dtype)
            return self.gain_max * torch.tanh(self.gain_proj(wide).squeeze(-1) + self.gain_bias)


def _torch(layer: Sessa, inner: Tensor, f: Tensor) -> Tensor:
    q, k = layer.routes(inner)
    return feedback(q / math.sqrt(q.shape[-1]), k, layer.gains(inner), f)


def _triton(layer: Sessa, inner: Tensor, f: Tensor) -> Tensor:
    # Imported here: triton is there on GPU machines only.
    from fedscan.models.feedback_kernels import triton_feedback

    q, k = layer.routes(inner)
    return triton_feedback(q / math.sqrt(q.shape[-1]), k, layer.gains(inner), f)


# Who solves the loop -> (layer, activated inputs, f) -> s.
SOLVERS: dict[Kernels, Callable[[Sessa, Tensor, Tensor], Tensor]] = {
    "torch": _torch,
    "triton": _triton,
}


def construct(layer: nn.Module, generator: torch.Generator) -> None:
    """Draw the released implementation's initial values.

    Args:
        layer: a ``Sessa``, filled in place: weights and biases uniform, 1/sqrt(fan-in); the gain's
            bias is ``INITIAL_GAIN_BIAS``.
        generator: source of randomness.
    """
    for module in layer.children():
        if isinstance(module, nn.Linear):
            linear(module, generator)
    if hasattr(layer, "gain_bias"):
        layer.gain_bias.fill_(INITIAL_GAIN_BIAS)
