"""Initial values, bit-identical to mamba_ssm's ``MambaLMHeadModel`` for the same seed.

The order of draws is mamba_ssm's, including the draws whose values it throws away: constructors
fill each layer, then ``_init_weights`` runs over the backbone and again over the whole model.
Values are drawn on the CPU, so that both kernels and all devices start from the same model.
"""

import math

import torch
from torch import Tensor, nn

from fedscan.models.language_model import Architecture, LanguageModel
from fedscan.models.mamba2 import Mamba2, draw_a_log, draw_dt_bias

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
    for block in model.backbone.layers:
        block.norm.weight.fill_(1.0)
        if isinstance(block.mixer, Mamba2):
            _construct_mamba2(block.mixer, generator)
        else:
            _linear(block.mixer.in_proj, generator)
            _linear(block.mixer.out_proj, generator)
    model.backbone.norm_f.weight.fill_(1.0)


def _construct_mamba2(mixer: Mamba2, generator: torch.Generator) -> None:
    _linear(mixer.in_proj, generator)
    _kaiming(mixer.conv1d.weight, generator)
    bound = 1 / math.sqrt(mixer.conv1d.weight.shape[-1])
    mixer.conv1d.bias.uniform_(-bound, bound, generator=generator)
    mixer.dt_bias.copy_(draw_dt_bias(mixer.nheads, generator))
    mixer.A_log.copy_(draw_a_log(mixer.nheads, generator))
    mixer.D.fill_(1.0)
    mixer.norm.weight.fill_(1.0)
    _linear(mixer.out_proj, generator)


def _init_weights(model: LanguageModel, generator: torch.Generator) -> None:
    """Redraw the embedding and each output projection, scaled by 1/sqrt(depth); zero biases."""
    model.backbone.embedding.weight.normal_(std=EMBEDDING_STD, generator=generator)
    for block in model.backbone.layers:
        for projection in (block.mixer.in_proj, block.mixer.out_proj):
            if projection.bias is not None:
                projection.bias.zero_()
        _kaiming(block.mixer.out_proj.weight, generator)
        block.mixer.out_proj.weight /= math.sqrt(len(model.backbone.layers))


def _linear(layer: nn.Linear, generator: torch.Generator) -> None:
    """Draw what nn.Linear's constructor draws."""
    _kaiming(layer.weight, generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.in_features)
        layer.bias.uniform_(-bound, bound, generator=generator)


def _kaiming(weight: Tensor, generator: torch.Generator) -> None:
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)


def _discard(weight: Tensor, generator: torch.Generator) -> None:
    """Consume the draws of the untied head that the constructor makes and tying throws away."""
    _kaiming(torch.empty_like(weight), generator)
