"""The kind of every layer's mixer: Mamba2 and attention (paper, Table 10), or Sessa's layer."""

from collections.abc import Callable

from fedscan.models.architecture import ATTENTION, SESSA, SESSA_NO_FEEDBACK, layout


def _spread(quarters: int, kind: str = ATTENTION) -> Callable[[int], tuple[str, ...]]:
    """Spread attention evenly: layer floor((j + 0.5) depth / count) for the j-th of count."""

    def kinds(depth: int) -> tuple[str, ...]:
        count = quarters * depth // 4
        return layout(depth, ((2 * j + 1) * depth // (2 * count) for j in range(count)), kind)

    return kinds


def _all(kind: str) -> Callable[[int], tuple[str, ...]]:
    return lambda depth: (kind,) * depth


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
    "hybrid50sessa": _spread(2, SESSA),
    "sessa": _all(SESSA),
    "sessa_no_feedback": _all(SESSA_NO_FEEDBACK),
}
# Of one kind at every depth; the others place attention by quarters.
UNIFORM = {"mamba2", "sessa", "sessa_no_feedback"}
