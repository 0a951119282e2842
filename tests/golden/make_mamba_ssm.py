"""Run mamba_ssm's real Triton kernels under Triton's interpreter and keep what they computed.

Nothing of fedscan is imported. Needs torch, and no GPU; mamba_ssm, triton and einops go into a
folder of their own, since transformers would use mamba_ssm wherever it imports:

    export MAMBA_SKIP_CUDA_BUILD=TRUE MAMBA_FORCE_BUILD=TRUE
    pip install --no-deps --no-build-isolation --no-cache-dir --target FOLDER \\
        mamba-ssm==2.3.2.post1 triton==3.7.1 einops==0.8.2
    PYTHONPATH=FOLDER python tests/golden/make_mamba_ssm.py tests/golden/mamba_ssm.npz
"""

import contextlib
import os
import sys
import types

os.environ["TRITON_INTERPRET"] = "1"
os.environ["MAMBA_DETERMINISTIC"] = "1"

import numpy as np
import torch

# Mamba1's compiled extension is not there, and the kernels ask for a CUDA device.
sys.modules.setdefault("selective_scan_cuda", types.ModuleType("selective_scan_cuda"))
torch.cuda.device = lambda *a, **k: contextlib.nullcontext()
torch.cuda.get_device_properties = lambda *a, **k: types.SimpleNamespace(
    multi_processor_count=2, name="cpu"
)

import mamba_ssm.modules.mha as mha
from mamba_ssm.models.config_mamba import MambaConfig
from mamba_ssm.models.mixer_seq_simple import MambaLMHeadModel

SEED, BATCH, LENGTH, VOCABULARY = 1234, 2, 40, 61


class ComplexRotary(torch.nn.Module):
    """Rotary embedding by complex multiplication (flash-attn's needs a GPU to import)."""

    def __init__(self, dim, base, interleaved, device=None):
        super().__init__()
        self.dim, self.base = dim, base

    def turn(self, x):
        half = self.dim // 2
        pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
        frequency = self.base ** (-torch.arange(half, dtype=torch.float64) * 2 / self.dim)
        angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequency
        turned = pairs * torch.polar(torch.ones_like(angle), angle)[None, :, None, :]
        return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)

    def forward(self, q, kv, seqlen_offset=0, max_seqlen=None):
        k, v = kv.unbind(2)
        return self.turn(q), torch.stack((self.turn(k), v), dim=2)


def run(attention_layers):
    """Initial values, logits, loss and gradients of a two-layer model."""
    config = MambaConfig(
        d_model=32, n_layer=2, vocab_size=VOCABULARY,
        ssm_cfg={"layer": "Mamba2", "d_state": 16, "headdim": 16, "chunk_size": 16,
                 "use_mem_eff_path": False},
        attn_layer_idx=attention_layers,
        attn_cfg={"num_heads": 4, "head_dim": 8, "causal": True, "rotary_emb_dim": 8},
        rms_norm=True, residual_in_fp32=True, fused_add_norm=True, pad_vocab_size_multiple=8,
        tie_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(SEED)
    model = MambaLMHeadModel(config, device="cpu")
    initial = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    ids = torch.from_numpy(token_ids())
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1)
    )
    loss.backward()
    found = {f"initial/{name}": tensor.numpy() for name, tensor in initial.items()}
    found |= {f"gradient/{n}": p.grad.numpy() for n, p in model.named_parameters()}
    return found | {"logits": logits.detach().numpy(), "loss": np.float64(loss.item())}


def token_ids():
    return np.random.Generator(np.random.PCG64(SEED)).integers(0, VOCABULARY, (BATCH, LENGTH))


if __name__ == "__main__":
    mha.RotaryEmbedding = ComplexRotary
    arrays = {"ids": token_ids()}
    for kind, layers in (("mamba2", []), ("hybrid", [1])):
        arrays |= {f"{kind}/{name}": array for name, array in run(layers).items()}
    np.savez_compressed(sys.argv[1], **arrays)
    print(f"{len(arrays)} arrays, {os.path.getsize(sys.argv[1]):,} bytes")
