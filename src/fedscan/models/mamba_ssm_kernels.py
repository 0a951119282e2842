"""mamba_ssm's own model and kernels behind the same names.

Only the Triton kernels are needed: mamba_ssm's compiled selective scan serves Mamba1, and its
causal_conv1d path is used if that package is there. flash-attn is not needed either: the rotary
embedding is ours.
"""

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

import torch
from torch import Tensor, nn

from fedscan.models.architecture import Architecture
from fedscan.models.attention import rotate
from fedscan.models.language_model import LanguageModel, head_loss

INSTALL = (
    "install it as environment.yml does, or without compiling: MAMBA_SKIP_CUDA_BUILD=TRUE"
    " MAMBA_FORCE_BUILD=TRUE pip install --no-deps --no-build-isolation --no-cache-dir"
    " mamba-ssm==2.3.2.post1, with einops, triton and transformers; or set training.kernels: torch"
)


class Rotary(nn.Module):
    """Stands in for flash-attn's rotary embedding in mamba_ssm's attention."""

    def __init__(self, dim: int, base: float, interleaved: bool, device: Any = None) -> None:
        """Accept mamba_ssm's arguments; only the full head, halves paired, base 10000 is ours."""
        super().__init__()
        if interleaved or base != 10000.0:
            raise ValueError(f"rotary base {base}, interleaved {interleaved} is not supported")

    def forward(
        self, q: Tensor, kv: Tensor, seqlen_offset: Any = 0, max_seqlen: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys.

        Args:
            q: (batch, length, heads, head_dim).
            kv: (batch, length, 2, heads, head_dim); values stay.
            seqlen_offset: 0 in training.
            max_seqlen: ignored.

        Returns:
            The rotated q and kv.
        """
        k, v = kv.unbind(2)
        turned = [rotate(part.transpose(1, 2)).transpose(1, 2) for part in (q, k)]
        return turned[0], torch.stack((turned[1], v), dim=2)


class MambaSsmLoss(nn.Module):
    """The training loss computed by mamba_ssm's backbone; parameters are ``model.*``."""

    def __init__(self, model: nn.Module) -> None:
        """Wrap mamba_ssm's ``MambaLMHeadModel``."""
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return the mean cross-entropy in nats per token.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            Scalar.
        """
        return head_loss(self.model.backbone(ids), self.model.lm_head.weight, ids)


def loss(model: LanguageModel) -> nn.Module:
    """Return the loss computed by mamba_ssm, after one tiny forward and backward pass as a probe.

    Args:
        model: gives architecture, values and device.

    Returns:
        A module whose parameters are ``model.*``, with the names of ``model``.

    Raises:
        ValueError: if mamba_ssm cannot be imported or does not run; the message says what to do.
    """
    weight = model.lm_head.weight
    try:
        built = build(model.shape, weight.device)
        built.load_state_dict(model.state_dict(), strict=True)
        wrapped = MambaSsmLoss(built)
        ids = torch.zeros(1, 8, dtype=torch.int64, device=weight.device)
        torch.autograd.grad(wrapped(ids), list(wrapped.parameters()))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(
            f"training.kernels: mamba_ssm does not work here ({text}); {INSTALL}"
        ) from error
    return wrapped


def build(shape: Architecture, device: torch.device) -> nn.Module:
    """Return mamba_ssm's language model with its own initial values.

    Args:
        shape: architecture.
        device: where its parameters live.

    Returns:
        A ``MambaLMHeadModel``.
    """
    _prepare_import()
    models = importlib.import_module("mamba_ssm.models.mixer_seq_simple")
    configs = importlib.import_module("mamba_ssm.models.config_mamba")
    mha = importlib.import_module("mamba_ssm.modules.mha")
    if mha.RotaryEmbedding is None:
        mha.RotaryEmbedding = Rotary
    width = shape.d_model // shape.attention_heads
    config = configs.MambaConfig(
        d_model=shape.d_model,
        n_layer=shape.depth,
        d_intermediate=0,
        vocab_size=shape.vocab_size,
        ssm_cfg={
            "layer": "Mamba2",
            "d_state": shape.d_state,
            "d_conv": shape.d_conv,
            "expand": shape.expand,
            "headdim": shape.headdim,
            "ngroups": shape.ngroups,
            "chunk_size": shape.chunk_size,
            "use_mem_eff_path": importlib.util.find_spec("causal_conv1d") is not None,
        },
        attn_layer_idx=list(shape.attention_layers),
        # Without causal=True mamba_ssm's attention looks ahead.
        attn_cfg={
            "num_heads": shape.attention_heads,
            "head_dim": width,
            "causal": True,
            "rotary_emb_dim": width,
        },
        rms_norm=True,
        residual_in_fp32=True,
        fused_add_norm=True,
        pad_vocab_size_multiple=shape.pad_vocab_size_multiple,
        tie_embeddings=True,
    )
    return models.MambaLMHeadModel(config, device=device, dtype=torch.float32)


def _prepare_import() -> None:
    """Ask for deterministic kernels before import, and do without Mamba1's extension."""
    os.environ.setdefault("MAMBA_DETERMINISTIC", "1")
    os.environ.setdefault("CAUSAL_CONV1D_DETERMINISTIC", "1")
    name = "selective_scan_cuda"
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
