"""Names of a model's tensors: this package's, mamba_ssm's and Hugging Face transformers'.

Parameters are held without the tied head (``named_parameters``); mamba_ssm's and transformers'
state dicts name it too, and transformers calls the embedding ``embeddings``.
"""

from collections.abc import Mapping

from torch import Tensor

EMBEDDING = "backbone.embedding.weight"
HEAD = "lm_head.weight"
HF_EMBEDDING = "backbone.embeddings.weight"


def to_mamba_ssm(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict of ``mamba_ssm.MambaLMHeadModel``.

    Args:
        params: parameters without the tied head.

    Returns:
        The same tensors and ``lm_head.weight``, which is the embedding.
    """
    return {**params, HEAD: params[EMBEDDING]}


def from_mamba_ssm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters without the tied head.

    Args:
        state: state dict of mamba_ssm's model, with or without ``lm_head.weight``.

    Returns:
        The same tensors under the same names.

    Raises:
        ValueError: if the head is not tied to the embedding or there is no embedding.
    """
    if EMBEDDING not in state:
        raise ValueError(f"no {EMBEDDING!r} in the state dict; its names: {', '.join(state)[:200]}")
    head = state.get(HEAD)
    if head is not None and not head.equal(state[EMBEDDING]):
        raise ValueError(f"{HEAD!r} differs from {EMBEDDING!r}: fedscan's models have a tied head")
    return {name: tensor for name, tensor in state.items() if name != HEAD}


def to_huggingface(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict of transformers' ``Mamba2ForCausalLM``.

    Args:
        params: parameters without the tied head; no attention layers.

    Returns:
        The same tensors under transformers' names.
    """
    state = to_mamba_ssm(params)
    state[HF_EMBEDDING] = state.pop(EMBEDDING)
    return state


def from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters from the state dict of transformers' ``Mamba2ForCausalLM``.

    Args:
        state: state dict with a tied head.

    Returns:
        Parameters under this package's names.
    """
    renamed = {EMBEDDING if name == HF_EMBEDDING else name: t for name, t in state.items()}
    return from_mamba_ssm(renamed)
