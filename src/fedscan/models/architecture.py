"""The shape of a language model, with the kind of mixer in every layer."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MAMBA2, ATTENTION = "mamba2", "attention"
SESSA, SESSA_NO_FEEDBACK = "sessa", "sessa_no_feedback"


class Architecture(NamedTuple):
    """Shape of a language model; names are mamba_ssm's, units are channels, tokens or layers.

    Attributes:
        mixers: kind of each layer's mixer, a key of ``models.mixers.MIXERS``.
    """

    mixers: tuple[str, ...]
    d_model: int
    d_state: int
    d_conv: int
    expand: int
    headdim: int
    ngroups: int
    attention_heads: int
    vocab_size: int
    pad_vocab_size_multiple: int
    chunk_size: int

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.mixers)

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """Layers of attention, from 0."""
        return tuple(i for i, kind in enumerate(self.mixers) if kind == ATTENTION)

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the embedding."""
        return -(-self.vocab_size // self.pad_vocab_size_multiple) * self.pad_vocab_size_multiple


def layout(depth: int, attention: Iterable[int] = (), kind: str = ATTENTION) -> tuple[str, ...]:
    """Return the kinds of a model of Mamba2 and attention, or another kind in its place.

    Args:
        depth: number of layers.
        attention: which of them are attention, from 0.
        kind: what these are.

    Returns:
        A kind per layer.

    Raises:
        ValueError: if a layer of attention is not among them.
    """
    chosen = set(attention)
    if outside := sorted(chosen - set(range(depth))):
        raise ValueError(f"layer {outside[0]} is attention, and layers are 0 to {depth - 1}")
    return tuple(kind if layer in chosen else MAMBA2 for layer in range(depth))


def to_facts(shape: Architecture) -> dict[str, Any]:
    """Return an architecture as a file of a model describes it.

    Args:
        shape: architecture.

    Returns:
        JSON-like data: depth and attention layers; the kinds where there are others.
    """
    facts = shape._asdict()
    kinds = facts.pop("mixers")
    facts |= {"depth": shape.depth, "attention_layers": shape.attention_layers}
    return facts if set(kinds) <= {MAMBA2, ATTENTION} else {**facts, "mixers": kinds}


def from_facts(facts: Mapping[str, Any]) -> Architecture:
    """Return the architecture that ``to_facts`` described.

    Args:
        facts: what it returned, as JSON; other keys are passed over.

    Returns:
        The architecture.

    Raises:
        KeyError: if a key is missing.
    """
    plain = {name: facts[name] for name in Architecture._fields if name != "mixers"}
    kinds = facts.get("mixers") or layout(facts["depth"], facts["attention_layers"])
    return Architecture(mixers=tuple(kinds), **plain)
