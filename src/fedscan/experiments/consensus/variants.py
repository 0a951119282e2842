"""From a variant's configuration to layers, an update and initial tokens."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedscan.experiments.consensus.following import Followed, follow
from fedscan.experiments.consensus.starts import alike
from fedscan.models.analysed_ssm import AnalysedLayer, own_interaction, readout
from fedscan.models.architecture import Architecture
from fedscan.models.depth_iteration import (
    Applied,
    Form,
    Layer,
    MixerLayer,
    Update,
    apply_mixer,
    in_turn,
)
from fedscan.models.redraw import redrawn_analysed, redrawn_mixer
from fedscan.seeds import derive

# Column ``layer`` where all layers are visited.
ALL_LAYERS = -1


class Subject(NamedTuple):
    """A model to iterate.

    Attributes:
        shape: architecture.
        embedding: (rows, n).
        layers: its mixers.
    """

    shape: Architecture
    embedding: Tensor
    layers: Sequence[MixerLayer]


class Iteration(NamedTuple):
    """One curve that is asked for.

    Attributes:
        name: of the variant.
        layer: that is repeated, or ``ALL_LAYERS``.
        variant: its section of the configuration.
        random: section ``consensus.random``, for redrawn weights.
        seed: root seed.
        depth: layers applied.
    """

    name: str
    layer: int
    variant: Mapping[str, Any]
    random: Mapping[str, Any]
    seed: int
    depth: int

    @property
    def redrawn(self) -> bool:
        """Whether weights are redrawn: the model's own are then not read."""
        return bool(self.variant["weights"] == "redraw")

    @property
    def drawn_tokens(self) -> bool:
        """Whether the initial tokens are drawn instead of looked up in the embedding."""
        return self.redrawn and self.random["mean_cosine"] is not None


def iterations(
    variants: Mapping[str, Mapping[str, Any]],
    random: Mapping[str, Any],
    seed: int,
    depth: int,
    model_depth: int,
) -> list[Iteration]:
    """Return every curve that is asked for.

    Args:
        variants: name -> section.
        random: section ``consensus.random``.
        seed: root seed.
        depth: layers applied.
        model_depth: layers of the model.

    Returns:
        In the order of ``variants``; of a repeated variant one per layer.

    Raises:
        ValueError: if a layer is repeated that the model does not have.
    """
    found = []
    for name, variant in variants.items():
        layers = variant["layers"]
        if variant["weights"] != "repeat":
            layers = [ALL_LAYERS]
        elif layers == "all":
            layers = list(range(model_depth))
        for layer in layers:
            if layer >= model_depth:
                raise ValueError(
                    f"consensus.variants.{name}.layers: {layer}; layers of a model of depth"
                    f" {model_depth} are 0 to {model_depth - 1}"
                )
            found.append(Iteration(name, layer, variant, random, seed, depth))
    return found


def followed(one: Iteration, subject: Subject, ids: np.ndarray, draws: range) -> Followed:
    """Iterate some draws of one curve.

    Args:
        one: what is asked for.
        subject: the model.
        ids: token ids of these draws, (draws, tokens).
        draws: their numbers.

    Returns:
        Measures of these draws.
    """
    variant = one.variant
    update = Update(variant["tau"], variant["update"] == "sphere")
    if not one.redrawn:
        form = Form(variant["gate"], variant["silu"], variant["conv"])
        weights = subject.layers if one.layer == ALL_LAYERS else [subject.layers[one.layer]]
        return follow(
            subject.embedding[torch.as_tensor(ids)], in_turn(weights, form), one.depth, update
        )
    start = _start(one, subject, ids, draws)
    if one.random["per"] == "layer":
        return follow(start, _redrawn(one, subject, ()), one.depth, update)
    parts = [
        follow(start[i : i + 1], _redrawn(one, subject, (draw,)), one.depth, update)
        for i, draw in enumerate(draws)
    ]
    return _joined(parts)


def _start(one: Iteration, subject: Subject, ids: np.ndarray, draws: range) -> Tensor:
    embedding = subject.embedding
    if not one.drawn_tokens:
        return embedding[torch.as_tensor(ids)]
    drawn = alike(one.seed, draws, ids.shape[1], embedding.shape[1], one.random["mean_cosine"])
    return torch.as_tensor(drawn).to(embedding)


def _redrawn(one: Iteration, subject: Subject, draw: tuple[int, ...]) -> Iterator[Layer]:
    """Yield new layers; a stream per depth, so that variants share their weights."""
    variant, embedding = one.variant, subject.embedding
    form = Form(variant["gate"], variant["silu"], variant["conv"])
    for depth in range(one.depth):
        stream = derive(one.seed, "consensus weights", depth, *draw)
        generator = torch.Generator().manual_seed(stream)
        if variant["system"] == "analysed":
            drawn = redrawn_analysed(
                embedding.shape[1], one.random["d_state"], generator, embedding.dtype
            )
            placed = AnalysedLayer(*(t.to(embedding.device) for t in drawn))
            yield partial(_apply_analysed, layer=placed, silu=variant["silu"])
        else:
            mixer = redrawn_mixer(subject.shape, one.random["law"], generator, embedding.dtype)
            yield partial(apply_mixer, layer=placed_on(mixer, embedding.device), form=form)


def _apply_analysed(tokens: Tensor, layer: AnalysedLayer, silu: bool) -> Applied:
    q = own_interaction(tokens, layer, silu)
    return Applied(readout(tokens, layer, silu), q, q, None)


def placed_on(layer: MixerLayer, device: torch.device | str) -> MixerLayer:
    """Return a layer on a device.

    Args:
        layer: weights.
        device: where they go.
    """
    moved = (v.to(device) if isinstance(v, Tensor) else v for v in layer)
    return MixerLayer(*moved)


def _joined(parts: Sequence[Followed]) -> Followed:
    columns = zip(*parts, strict=True)
    joined = []
    for values in columns:
        if isinstance(values[0], list):
            joined.append([item for value in values for item in value])
        else:
            joined.append(None if values[0] is None else np.concatenate(values))
    return Followed(*joined)
