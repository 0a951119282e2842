"""Initial values, bit-identical to mamba_ssm's ``MambaLMHeadModel`` for the same seed.

The order of draws is mamba_ssm's, including the draws whose values it throws away: constructors
fill each layer, then ``_init_weights`` runs over the backbone and again over the whole model.
Values are drawn on the CPU, so that both kernels and all devices start from the same model.
"""

import torch
from torch import Tensor

from fedscan.models.architecture import Architecture
from fedscan.models.draws import kaiming
from fedscan.models.language_model import LanguageModel
from fedscan.models.mixers import MIXERS

EMBEDDING_STD = 0.02


def initialise(shape: Architecture, seed: int) -> LanguageModel:
    """Create a language model with mamba_ssm's initial values.

    Args:
        shape: architecture.
        seed: what ``torch.manual_seed`` would be given before building mamba_ssm's model.

    Returns:
        The model on the CPU in float32; the global random state is neither read nor changed.
    """
    generator = torch.Generator().manual_seed(seed)
    # The constructors draw from the global generator; building on the meta device would avoid it
    # but loads seconds' worth of torch's decompositions.
    with torch.random.fork_rng(devices=[]):
        model = LanguageModel(shape)
    with torch.no_grad():
        _construct(model, generator)
        _init_weights(model, generator)
        _discard(model.lm_head.weight, generator)
        _init_weights(model, generator)
        # The whole model holds the tied weight twice: embedding first, and lm_head is not redrawn.
    return model


def _construct(model: LanguageModel, generator: torch.Generator) -> None:
    """Draw what the constructors draw, layer by layer."""
    model.backbone.embedding.weight.normal_(generator=generator)
    for kind, block in zip(model.shape.mixers, model.backbone.layers, strict=True):
        block.norm.weight.fill_(1.0)
        MIXERS[kind].construct(block.mixer, generator)
    model.backbone.norm_f.weight.fill_(1.0)


def _init_weights(model: LanguageModel, generator: torch.Generator) -> None:
    """Redraw the embedding and what each kind of layer redraws in a whole model."""
    model.backbone.embedding.weight.normal_(std=EMBEDDING_STD, generator=generator)
    for kind, block in zip(model.shape.mixers, model.backbone.layers, strict=True):
        MIXERS[kind].reset(block.mixer, model.shape.depth, generator)


def _discard(weight: Tensor, generator: torch.Generator) -> None:
    """Consume the draws of the untied head that the constructor makes and tying throws away."""
    kaiming(torch.empty_like(weight), generator)
