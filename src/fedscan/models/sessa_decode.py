"""Decoding a Sessa layer token by token: s_t is final when it is written, nothing is read again.

A cache holds rotated keys and values of the forward attention, keys of the feedback, and s: four
numbers a token and channel, where attention alone has two. A step reads each once.
"""

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from fedscan.models.attention import rotate
from fedscan.models.sessa import Sessa


class Cache(NamedTuple):
    """What a layer keeps of the tokens it has read; buffers are written in place.

    Attributes:
        keys: rotated, (batch, heads, capacity, head width).
        values: (batch, heads, capacity, head width).
        feedback_keys: (batch, capacity, key width); None without the loop.
        s: (batch, capacity, d_model); None without the loop.
        length: tokens read.
    """

    keys: Tensor
    values: Tensor
    feedback_keys: Tensor | None
    s: Tensor | None
    length: int


def prefill(layer: Sessa, hidden: Tensor, capacity: int) -> tuple[Tensor, Cache]:
    """Read a prompt in one pass.

    Args:
        layer: any Sessa layer.
        hidden: normalised, (batch, length, d_model), length from 1 to ``capacity``.
        capacity: tokens the cache has room for.

    Returns:
        The layer's output, and the cache after the prompt.

    Raises:
        ValueError: if the prompt is longer than the cache.
    """
    batch, length, width = hidden.shape
    if length > capacity:
        raise ValueError(f"a prompt of {length} tokens; the cache has room for {capacity}")
    inner, gate = layer.in_proj(hidden).chunk(2, dim=-1)
    inner = F.gelu(inner)
    s = layer.mix(inner)
    keys, values = _forward_parts(layer, inner, 0)
    shape = (batch, layer.heads, capacity, width // layer.heads)
    cache = Cache(_into(keys, shape, 2), _into(values, shape, 2), None, None, length)
    if layer.loop:
        back = layer.routes(inner)[1]
        cache = cache._replace(
            feedback_keys=_into(back, (batch, capacity, back.shape[-1]), 1),
            s=_into(s, (batch, capacity, width), 1),
        )
    return layer.out_proj(s.to(gate.dtype) * gate), cache


def step(layer: Sessa, hidden: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """Read one more token.

    Args:
        layer: the layer that made the cache.
        hidden: normalised, (batch, d_model).
        cache: of the tokens before; its buffers are written.

    Returns:
        The layer's output, (batch, d_model), and the cache after the token.

    Raises:
        ValueError: if the cache is full, or of other widths.
    """
    at = cache.length
    batch, heads, capacity, head_width = cache.keys.shape
    if at == capacity:
        raise ValueError(f"the cache is full: it has room for {capacity} tokens")
    if hidden.shape != (batch, heads * head_width) or heads != layer.heads:
        raise ValueError(
            f"a token of shape {tuple(hidden.shape)} for {layer.heads} heads; the cache is of"
            f" {batch} sequences, {heads} heads of {head_width}"
        )
    inner, gate = layer.in_proj(hidden[:, None]).chunk(2, dim=-1)
    inner = F.gelu(inner)
    keys, values = _forward_parts(layer, inner, at)
    cache.keys[:, :, at : at + 1], cache.values[:, :, at : at + 1] = keys, values
    q = layer.q_proj(inner).unflatten(-1, (heads, -1)).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(
        rotate(q, at), cache.keys[:, :, : at + 1], cache.values[:, :, : at + 1]
    )
    f = mixed.transpose(1, 2).flatten(2)
    s = f if layer.forward_proj is None else layer.forward_proj(f)
    if cache.s is not None and cache.feedback_keys is not None:
        s = s.to(cache.s.dtype)
        q, back = layer.routes(inner, at)
        if at:
            logits = (q / math.sqrt(q.shape[-1])) @ cache.feedback_keys[:, :at].mT
            weights = logits.to(s.dtype).softmax(-1)
            s = s + layer.gains(inner)[..., None].to(s.dtype) * (weights @ cache.s[:, :at])
        cache.s[:, at : at + 1], cache.feedback_keys[:, at : at + 1] = s, back
    out = layer.out_proj(s.to(gate.dtype) * gate)
    return out[:, 0], cache._replace(length=at + 1)


def _forward_parts(layer: Sessa, inner: Tensor, first: int) -> tuple[Tensor, Tensor]:
    k, v = (
        project(inner).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for project in (layer.k_proj, layer.v_proj)
    )
    return rotate(k, first), v


def _into(part: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """Return a buffer that begins with a tensor."""
    buffer = part.new_zeros(shape)
    buffer.narrow(axis, 0, part.shape[axis]).copy_(part)
    return buffer
