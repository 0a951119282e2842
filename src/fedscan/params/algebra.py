"""Vector-space operations on ``Params``, a mapping from parameter name to tensor.

Results are new tensors; arguments are never changed. Sums over all entries (dot products, norms)
accumulate in float64, in the order of the names in the first argument.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

Params = dict[str, Tensor]
ROW = 1024
# Up to this size one operation in float64 is cheaper than several on rows.
SHORT = 1 << 16


def zeros_like(a: Mapping[str, Tensor]) -> Params:
    """Return zeros with the names, shapes and dtypes of ``a``.

    Args:
        a: named tensors.

    Returns:
        New tensors.
    """
    return {name: torch.zeros_like(tensor) for name, tensor in a.items()}


def clone(a: Mapping[str, Tensor]) -> Params:
    """Return a copy that shares no memory with ``a`` and carries no gradient history.

    Args:
        a: named tensors.

    Returns:
        New contiguous tensors.
    """
    return {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in a.items()
    }


def add(a: Mapping[str, Tensor], b: Mapping[str, Tensor], scale: float = 1.0) -> Params:
    """Return a + scale * b.

    Args:
        a: named tensors.
        b: named tensors with the names and shapes of ``a``.
        scale: factor of ``b``.

    Returns:
        New tensors.
    """
    if _on_gpu(a):
        moved = torch._foreach_add(list(a.values()), [b[name] for name in a], alpha=scale)
        return dict(zip(a, moved, strict=True))
    if scale == 1.0:
        return {name: tensor + b[name] for name, tensor in a.items()}
    return {name: tensor + scale * b[name] for name, tensor in a.items()}


def subtract(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    """Return a - b.

    Args:
        a: named tensors.
        b: named tensors with the names and shapes of ``a``.

    Returns:
        New tensors.
    """
    if _on_gpu(a):
        apart = torch._foreach_sub(list(a.values()), [b[name] for name in a])
        return dict(zip(a, apart, strict=True))
    return {name: tensor - b[name] for name, tensor in a.items()}


def multiply(a: Mapping[str, Tensor], factor: float) -> Params:
    """Return factor * a.

    Args:
        a: named tensors.
        factor: a number.

    Returns:
        New tensors.
    """
    if _on_gpu(a):
        return dict(zip(a, torch._foreach_mul(list(a.values()), factor), strict=True))
    return {name: factor * tensor for name, tensor in a.items()}


def _on_gpu(a: Mapping[str, Tensor]) -> bool:
    """Return whether one launch for all tensors is worth it; CPUs would only loop inside."""
    return any(tensor.is_cuda for tensor in a.values())


def dot(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """Return the inner product over all entries.

    Args:
        a: named tensors.
        b: named tensors with the names and shapes of ``a``.

    Returns:
        The sum of products, accumulated in float64 between rows of ``ROW`` entries, or throughout
        where a tensor has at most ``SHORT``.
    """
    total = 0.0
    for name, tensor in a.items():
        if tensor.numel() <= SHORT:
            total += float(torch.dot(_double(tensor), _double(b[name])))
            continue
        for one, other in zip(_rows(tensor), _rows(b[name]), strict=True):
            products = torch.bmm(one.unsqueeze(1), other.unsqueeze(2))
            total += float(products.sum(dtype=torch.float64))
    return total


def _double(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float64).reshape(-1)


def norm(a: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm over all entries.

    Args:
        a: named tensors.

    Returns:
        See ``norm_tensor``.
    """
    return float(norm_tensor(a))


def norm_tensor(a: Mapping[str, Tensor]) -> Tensor:
    """Return the Euclidean norm over all entries without waiting for a GPU.

    torch's norm of one long float32 tensor is off by 5e-4 at 10^7 entries; here only rows of
    ``ROW`` entries are summed in the tensor's dtype, and the rows in float64.

    Args:
        a: named tensors.

    Returns:
        Scalar, float64.
    """
    norms: list[Tensor] = []
    if _on_gpu(a):
        # Two launches for all tensors; every product and sum is float64.
        norms.extend(torch._foreach_norm(list(a.values()), 2, dtype=torch.float64))
    else:
        for tensor in a.values():
            norms.extend(_partial_norms(tensor))
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


def _partial_norms(tensor: Tensor) -> list[Tensor]:
    if tensor.numel() <= SHORT:
        return [torch.linalg.vector_norm(tensor, dtype=torch.float64)]
    partial = [torch.linalg.vector_norm(rows, dim=1) for rows in _rows(tensor)]
    return [torch.linalg.vector_norm(norms, dtype=torch.float64) for norms in partial]


def _rows(tensor: Tensor) -> list[Tensor]:
    """Return views (rows, ROW) and, for the rest, (1, fewer) that cover the tensor."""
    flat = tensor.detach().reshape(-1)
    whole = len(flat) // ROW * ROW
    parts = [flat[:whole].view(-1, ROW), flat[whole:].view(1, -1)]
    return [part for part in parts if part.numel()]


def all_finite(a: Mapping[str, Tensor]) -> bool:
    """Return whether every entry is finite.

    Args:
        a: named tensors.

    Returns:
        False if any entry is NaN or infinite.
    """
    # A sum is finite only if all terms are, up to overflow, which the exact test then settles.
    total = torch.stack([tensor.sum(dtype=torch.float64) for tensor in a.values()]).sum()
    return bool(torch.isfinite(total)) or all(bool(torch.isfinite(t).all()) for t in a.values())


def weighted_mean(items: Iterable[Mapping[str, Tensor]], weights: Iterable[float]) -> Params:
    """Return the weighted sum of named tensors, weights as given (they should sum to one).

    Args:
        items: named tensors with equal names and shapes, in client order.
        weights: one weight per item.

    Returns:
        The sum, accumulated in float64 and rounded once to the items' dtype, so that a float32
        result does not depend on the order of the clients.

    Raises:
        ValueError: if there is no item.
    """
    total: Params = {}
    dtypes: dict[str, torch.dtype] = {}
    for item, weight in zip(items, weights, strict=True):
        for name, tensor in item.items():
            if name not in total:
                dtypes[name] = tensor.dtype
                total[name] = torch.zeros_like(tensor, dtype=torch.float64)
            total[name].add_(tensor, alpha=weight)
    if not total:
        raise ValueError("weighted_mean needs at least one item")
    return {name: tensor.to(dtypes[name]) for name, tensor in total.items()}
