"""Shapes of the models that Sessa is compared with in one block, and their parameters. No torch.

Horbatko, "Sessa: Selective State Space Attention", section 3.1: x + W_out(Mixer(GELU(a)) * g), and
only the mixer differs. The paper matches parameters and does not say how; here the width is chosen.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

Form = Literal["authors", "paper"]
D_CONV, EXPAND, NGROUPS = 4, 2, 1
# State sizes are tried in steps of this.
STATE_STEP = 8


class SequenceShape(NamedTuple):
    """Shape of a model of tokens; units are channels, layers or tokens.

    Attributes:
        mixer: a key of ``KINDS``.
        heads: of attention.
        forward_heads: of the forward attention of Sessa.
        form: of Sessa's layer: 'authors' has biases in all projections.
        gain_max: largest gain of Sessa's feedback.
        d_state: state size per head of Mamba2.
        headdim: channels per head of Mamba2.
        tied_head: whether the head is the embedding.
    """

    mixer: str
    vocab_size: int
    d_model: int
    depth: int
    heads: int
    forward_heads: int
    form: Form
    gain_max: float
    d_state: int
    headdim: int
    tied_head: bool


def sessa_parameters(
    d_model: int,
    heads: int,
    form: Form,
    *,
    loop: bool = True,
    selective_gain: bool = True,
    selective_routing: bool = True,
) -> int:
    """Count the parameters of Sessa's layer, its norm aside.

    Args:
        d_model: width D.
        heads: of the forward attention.
        form: 'authors' or 'paper'.
        loop: whether there is the feedback attention.
        selective_gain: whether gains depend on tokens.
        selective_routing: whether the feedback attention's weights do.

    Returns:
        9 D^2 + 9 D + 1 for the authors' form with several heads and the loop.
    """
    routed, biased = loop and selective_routing, form == "authors"
    squares = 6 + (heads > 1) + 2 * routed
    rows = 3 + 3 * biased + 2 * routed * biased + (loop and selective_gain)
    return squares * d_model**2 + rows * d_model + loop


def mamba2_parameters(shape: SequenceShape) -> int:
    """Count the parameters of a Mamba2 mixer.

    Args:
        shape: of the model.
    """
    inner = EXPAND * shape.d_model
    heads, channels = inner // shape.headdim, inner + 2 * NGROUPS * shape.d_state
    in_proj = shape.d_model * (inner + channels + heads)
    return in_proj + (D_CONV + 1) * channels + 3 * heads + inner + inner * shape.d_model


def _gated_mamba2(shape: SequenceShape) -> int:
    return 3 * shape.d_model**2 + 3 * shape.d_model + mamba2_parameters(shape)


def _attention(shape: SequenceShape) -> int:
    return sessa_parameters(shape.d_model, shape.heads, shape.form, loop=False)


def _attention_divides(heads: Callable[[SequenceShape], int]) -> Callable[[SequenceShape], bool]:
    """Heads have even widths: rotary pairs."""
    return lambda shape: shape.d_model % (2 * heads(shape)) == 0


def _mamba2_divides(shape: SequenceShape) -> bool:
    return EXPAND * shape.d_model % shape.headdim == 0


class Kind(NamedTuple):
    """One kind of layer.

    Attributes:
        count: parameters of one, its norm aside.
        divides: whether the width divides into its heads.
        matched: whether its width is chosen to match Sessa's parameters; if not, it is Sessa with
            a part removed, and keeps its width.
        has_state: whether the state size is chosen too.
    """

    count: Callable[[SequenceShape], int]
    divides: Callable[[SequenceShape], bool]
    matched: bool = False
    has_state: bool = False


def _sessa(**switched: bool) -> Kind:
    def count(shape: SequenceShape) -> int:
        return sessa_parameters(shape.d_model, shape.forward_heads, shape.form, **switched)

    return Kind(count, _attention_divides(lambda shape: shape.forward_heads))


KINDS: dict[str, Kind] = {
    "sessa": _sessa(),
    "sessa_no_feedback": _sessa(loop=False),
    "sessa_fixed_gain": _sessa(selective_gain=False),
    "sessa_uniform": _sessa(selective_routing=False),
    "sessa_rope_feedback": _sessa(),
    "mha": Kind(_attention, _attention_divides(lambda shape: shape.heads), matched=True),
    "mamba2": Kind(_gated_mamba2, _mamba2_divides, matched=True, has_state=True),
    "mamba2_plain": Kind(mamba2_parameters, _mamba2_divides, matched=True, has_state=True),
}


def parameters(shape: SequenceShape) -> int:
    """Count the parameters of a model.

    Args:
        shape: of the model.

    Returns:
        Of all layers with their norms, the last norm, the embedding and a head of its own.
    """
    width = shape.d_model
    embeddings = (1 if shape.tied_head else 2) * shape.vocab_size * width
    return shape.depth * (KINDS[shape.mixer].count(shape) + 2 * width) + 2 * width + embeddings


def is_whole(shape: SequenceShape) -> bool:
    """Return whether widths divide: attention's heads into rotary pairs, Mamba2's into heads.

    Args:
        shape: of the model.
    """
    return KINDS[shape.mixer].divides(shape)


def matched(shape: SequenceShape, tolerance: float) -> SequenceShape:
    """Return a model with as many parameters as Sessa of the same width, depth and heads.

    Args:
        shape: of the compared model, with Sessa's width; d_state is what is asked for.
        tolerance: largest relative difference of the totals.

    Returns:
        The shape with the width, and for Mamba2 the state size (a multiple of 8 from half to twice
        of what was asked for), whose total is closest; of equal ones the nearest state size. A
        model that is Sessa with a part removed stays as it is.

    Raises:
        ValueError: if none is within the tolerance; names the nearest widths.
    """
    if not KINDS[shape.mixer].matched:
        return shape
    target = parameters(shape._replace(mixer="sessa"))
    found = [(abs(parameters(one) - target), one) for one in _candidates(shape)]
    states = KINDS[shape.mixer].has_state
    found.sort(key=lambda pair: (pair[0], abs(pair[1].d_state - shape.d_state), pair[1].d_model))
    if not found or found[0][0] > tolerance * target:
        near = ", ".join(
            f"d_model {one.d_model}"
            + (f", d_state {one.d_state}" if states else "")
            + f": {parameters(one):,}"
            for _, one in found[:2]
        )
        raise ValueError(
            f"no {shape.mixer} has within {tolerance:g} of sessa's {target:,} parameters; nearest:"
            f" {near or 'none'}"
        )
    return found[0][1]


def _candidates(shape: SequenceShape) -> Iterator[SequenceShape]:
    states = KINDS[shape.mixer].has_state
    first = -(-shape.d_state // (2 * STATE_STEP)) * STATE_STEP
    sizes = range(first, 2 * shape.d_state + 1, STATE_STEP) if states else (shape.d_state,)
    for d_state in sizes:
        for width in range(2, 3 * shape.d_model):
            one = shape._replace(d_model=width, d_state=d_state)
            if is_whole(one):
                yield one
