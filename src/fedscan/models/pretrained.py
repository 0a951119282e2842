"""Published checkpoints: config.json and tensors -> this package's architecture and parameters.

Two descriptions are understood: mamba_ssm's ``MambaConfig`` and transformers' ``Mamba2Config``.
What would change the function and is not implemented here is refused, never ignored.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedscan.models.architecture import ATTENTION, MAMBA2, Architecture, layout
from fedscan.models.language_model import LanguageModel
from fedscan.models.mixers import MIXERS
from fedscan.models.names import EMBEDDING, HF_EMBEDDING, from_mamba_ssm
from fedscan.params.algebra import Params

# mamba_ssm's defaults of its Mamba2 layer and of MambaConfig.
LAYER_DEFAULTS = {
    "d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1, "chunk_size": 256,
}  # fmt: skip
# Keys that change initial values or speed, not the function of given weights.
HARMLESS = {"layer", "A_init_range", "dt_min", "dt_max", "dt_init_floor", "use_mem_eff_path"}
FIXED_LAYER = {
    "d_ssm": None, "D_has_hdim": False, "rmsnorm": True, "norm_before_gate": False,
    "dt_limit": [0.0, float("inf")], "bias": False, "conv_bias": True,
}  # fmt: skip
FIXED_MODEL = {"d_intermediate": 0, "rms_norm": True, "tie_embeddings": True}
# Key of the list of kinds where there are others than mamba_ssm's.
KINDS = "fedscan_mixers"
FIXED_ATTENTION = {
    "causal": True, "qkv_proj_bias": True, "out_proj_bias": True, "d_conv": 0, "num_heads_kv": None,
}  # fmt: skip
FIXED_HF = {
    "hidden_act": "silu", "use_bias": False, "use_conv_bias": True, "rms_norm": True,
    "tie_word_embeddings": True, "layer_norm_epsilon": 1e-5,
    "time_step_limit": [0.0, float("inf")],
}  # fmt: skip


# Not torch.is_floating_point: eight bits stand for weights only with scales, which lie elsewhere.
FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def architecture(description: Mapping[str, Any], source: str) -> Architecture:
    """Return the architecture a config.json describes.

    Args:
        description: the file's content.
        source: its name, for errors.

    Returns:
        Shape of the language model.

    Raises:
        ValueError: if a key is missing, or asks for what this package's model does not do.
    """
    try:
        made = _from_transformers if "hidden_size" in description else _from_mamba_ssm
        shape = made(description, source)
    except (TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"{source}: a value of the wrong kind ({error})") from None
    except KeyError as error:
        raise ValueError(
            f"{source}: no key {error}; expected mamba_ssm's MambaConfig (d_model, n_layer, …) or"
            " transformers' Mamba2Config (hidden_size, num_hidden_layers, …)"
        ) from None
    for name, number in shape._asdict().items():
        if name != "mixers":
            _require_whole(name, number, 1, source)
    return shape


def _require_whole(name: str, number: Any, least: int, source: str) -> None:
    if type(number) is not int or number < least:
        raise ValueError(f"{source}: {name} is {number!r}; expected a whole number")


def _layout(depth: Any, attention: Any, source: str) -> tuple[str, ...]:
    _require_whole("depth", depth, 1, source)
    for number in attention:
        _require_whole("attention_layers", number, 0, source)
    try:
        return layout(depth, attention)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _kinds(found: Any, plain: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Return the list of kinds that fedscan wrote beside mamba_ssm's keys."""
    if not isinstance(found, list) or len(found) != len(plain) or set(found) - set(MIXERS):
        raise ValueError(
            f"{source}: {KINDS} is {found!r}; expected {len(plain)} of {', '.join(MIXERS)}"
        )
    return tuple(found)


def description(shape: Architecture) -> dict[str, Any]:
    """Return mamba_ssm's config.json of an architecture.

    Args:
        shape: architecture.

    Returns:
        Content from which ``architecture`` gives ``shape`` again.
    """
    attention = list(shape.attention_layers)
    # mamba_ssm knows two kinds; of others fedscan keeps the list.
    others = set(shape.mixers) - {MAMBA2, ATTENTION}
    width = {"num_heads": shape.attention_heads}
    width["head_dim"] = width["rotary_emb_dim"] = shape.d_model // shape.attention_heads
    return {
        "d_model": shape.d_model,
        "d_intermediate": 0,
        "n_layer": shape.depth,
        "vocab_size": shape.vocab_size,
        "ssm_cfg": {"layer": "Mamba2", **{name: getattr(shape, name) for name in LAYER_DEFAULTS}},
        "attn_layer_idx": attention,
        "attn_cfg": FIXED_ATTENTION | width if attention or others else {},
        **({KINDS: list(shape.mixers)} if others else {}),
        "rms_norm": True,
        "residual_in_fp32": True,
        "fused_add_norm": True,
        "pad_vocab_size_multiple": shape.pad_vocab_size_multiple,
        "tie_embeddings": True,
    }


def parameters(
    state: Mapping[str, Tensor], shape: Architecture, dtype: torch.dtype, source: str
) -> Params:
    """Return a checkpoint's tensors as parameters of this package's model.

    Args:
        state: tensors under mamba_ssm's or transformers' names, with or without the tied head.
        shape: architecture.
        dtype: dtype of the result.
        source: name of the file, for errors.

    Returns:
        Parameters in the model's order, tied weights once.

    Raises:
        ValueError: if a tensor is missing, too many, of another shape or not floating-point; names
            it and what was expected.
    """
    renamed = {EMBEDDING if name == HF_EMBEDDING else name: t for name, t in state.items()}
    try:
        named = from_mamba_ssm(renamed)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    expected = shapes(shape)
    missing, extra = sorted(expected.keys() - named.keys()), sorted(named.keys() - expected.keys())
    if missing or extra:
        raise ValueError(
            f"{source}: missing tensors: {', '.join(missing[:3]) or 'none'}; unexpected tensors:"
            f" {', '.join(extra[:3]) or 'none'} ({len(missing)} and {len(extra)} in all)"
        )
    for name, wanted in expected.items():
        if tuple(named[name].shape) != wanted:
            raise ValueError(
                f"{source}: tensor {name!r} has shape {tuple(named[name].shape)}, expected {wanted}"
                " by config.json"
            )
        if named[name].dtype not in FLOATING:
            found = str(named[name].dtype).removeprefix("torch.")
            raise ValueError(
                f"{source}: tensor {name!r} has dtype {found}; expected floating-point weights, not"
                " quantised ones"
            )
    return {name: named[name].to(dtype) for name in expected}


def shapes(shape: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a model's parameters, in the model's order.

    Args:
        shape: architecture.

    Returns:
        Name -> shape, tied weights once.
    """
    model = empty_model(shape)
    return {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}


def empty_model(shape: Architecture) -> LanguageModel:
    """Return a model to run given parameters with; its own values are not set.

    Args:
        shape: architecture.

    Returns:
        The model, without gradients; the global random state stays as it is.
    """
    with torch.random.fork_rng(devices=[]):
        model = LanguageModel(shape)
    return model.requires_grad_(False)


def _from_mamba_ssm(found: Mapping[str, Any], source: str) -> Architecture:
    layer = found.get("ssm_cfg") or {}
    if layer.get("layer") != "Mamba2":
        raise ValueError(f"{source}: ssm_cfg.layer is {layer.get('layer')!r}, expected 'Mamba2'")
    unknown = sorted(set(layer) - LAYER_DEFAULTS.keys() - FIXED_LAYER.keys() - HARMLESS)
    if unknown:
        raise ValueError(f"{source}: ssm_cfg.{unknown[0]} is not known; known: {[*LAYER_DEFAULTS]}")
    _require(layer, FIXED_LAYER, source, "ssm_cfg.")
    _require(found, FIXED_MODEL, source, "")
    attention = tuple(found.get("attn_layer_idx") or ())
    mixers = _layout(found["n_layer"], attention, source)
    if KINDS in found:
        mixers = _kinds(found[KINDS], mixers, source)
    if set(mixers) != {MAMBA2}:
        width = found["d_model"] // found["attn_cfg"]["num_heads"]
        fixed = FIXED_ATTENTION | {"head_dim": width, "rotary_emb_dim": width}
        _require(found["attn_cfg"], fixed, source, "attn_cfg.")
    return Architecture(
        mixers=mixers,
        d_model=found["d_model"],
        attention_heads=1 if set(mixers) == {MAMBA2} else found["attn_cfg"]["num_heads"],
        vocab_size=found["vocab_size"],
        pad_vocab_size_multiple=found.get("pad_vocab_size_multiple", 8),
        **{name: layer.get(name, default) for name, default in LAYER_DEFAULTS.items()},
    )


def _from_transformers(found: Mapping[str, Any], source: str) -> Architecture:
    _require(found, FIXED_HF, source, "")
    shape = Architecture(
        mixers=_layout(found["num_hidden_layers"], (), source),
        d_model=found["hidden_size"],
        d_state=found["state_size"],
        d_conv=found["conv_kernel"],
        expand=found["expand"],
        headdim=found["head_dim"],
        ngroups=found["n_groups"],
        attention_heads=1,
        vocab_size=found["vocab_size"],
        pad_vocab_size_multiple=1,
        chunk_size=found["chunk_size"],
    )
    heads = shape.expand * shape.d_model // shape.headdim
    if found.get("num_heads", heads) != heads:
        raise ValueError(f"{source}: num_heads is {found['num_heads']}, expected {heads}")
    return shape


def _require(found: Mapping[str, Any], fixed: Mapping[str, Any], source: str, prefix: str) -> None:
    for name, value in fixed.items():
        given = _plain(found.get(name, value))
        if given != value:
            raise ValueError(
                f"{source}: {prefix}{name} is {given!r}; this package's model has {value!r}"
            )


def _plain(value: Any) -> Any:
    """Read transformers' spelling of infinities, {"__float__": "Infinity"}, also in lists."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping) and set(value) == {"__float__"}:
        return float(value["__float__"])
    return value
