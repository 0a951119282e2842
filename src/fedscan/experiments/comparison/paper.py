"""Where a configuration is not the paper's: the reason why two numbers need not agree."""

from collections.abc import Mapping
from typing import Any

# Paper, Section 5 and Appendix G.
PAPER_SETTINGS = {
    "text": "SlimPajama",
    "tokenizer": "gpt2",
    "sequence_length": 512,
    "sequences_per_client": 10_000,
    "d_model": 256,
    "d_state": 128,
    "rounds": 50,
    "batch_size": 8,
    "seeds": 3,
}


def compared_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide whether a number is comparable with the paper's.

    Args:
        config: the whole configuration, as JSON-like data.

    Returns:
        Keys of ``PAPER_SETTINGS``.
    """
    data, partition, model = config["data"], config["partition"], config["model"]
    text = data["huggingface"]["repo"] if data["source"] == "huggingface" else data["source"]
    return {
        # Its alternates are copies of one dataset.
        "text": "SlimPajama" if "SlimPajama" in text else text,
        "tokenizer": config["tokenizer"]["name"],
        "sequence_length": partition["sequence_length"],
        "sequences_per_client": partition["sequences_per_client"],
        "d_model": model["d_model"],
        "d_state": model["d_state"],
        "rounds": config["training"]["rounds"],
        "batch_size": config["training"]["batch_size"],
        "seeds": len(config["studies"][config["analysis"]["grid"]]["seeds"]),
    }


def differences(found: Mapping[str, object]) -> str:
    """List what differs from the paper's settings.

    Args:
        found: the keys of ``PAPER_SETTINGS`` with this run's values.

    Returns:
        'text synthetic (paper: SlimPajama); ...', empty if nothing differs.

    Raises:
        ValueError: if a setting is missing or unknown.
    """
    if set(found) != set(PAPER_SETTINGS):
        wrong = sorted(set(found) ^ set(PAPER_SETTINGS))
        raise ValueError(f"settings {wrong} are missing or unknown; known: {list(PAPER_SETTINGS)}")
    return "; ".join(
        f"{name} {found[name]} (paper: {paper})"
        for name, paper in PAPER_SETTINGS.items()
        if found[name] != paper
    )
