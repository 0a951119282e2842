"""Which layers of a model are attention (paper, Table 10); the others are Mamba2 mixers."""

from collections.abc import Callable

from fedscan.models.architecture import layout


def _spread(quarters: int) -> Callable[[int], tuple[str, ...]]:
    """Spread attention evenly: layer floor((j + 0.5) depth / count) for the j-th of count."""

    def kinds(depth: int) -> tuple[str, ...]:
        count = quarters * depth // 4
        return layout(depth, ((2 * j + 1) * depth // (2 * count) for j in range(count)))

    return kinds


def _alternate(depth: int) -> tuple[str, ...]:
    """Attention first, then every second layer: tests whether placement drives a result."""
    return layout(depth, range(0, depth, 2))


# Name -> depth -> the kind of every layer's mixer.
BACKBONES: dict[str, Callable[[int], tuple[str, ...]]] = {
    "mamba2": _spread(0),
    "hybrid75": _spread(1),
    "hybrid50": _spread(2),
    "hybrid50alt": _alternate,
    "hybrid25": _spread(3),
    "attn0": _spread(4),
}
