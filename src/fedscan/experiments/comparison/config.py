"""What the analysis makes of the studies."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fedscan.config.types import Name, NonNegative, Section


class Analysis(Section):
    """Which study feeds which table, and how expectations are read."""

    grid: Name = Field(
        description="study of Tables 2 and 23-26, the correlation and the paired comparison"
    )
    client_count: Name | None = Field(description="study of Table 27; null: none")
    backbone: Name | None = Field(description="study of Table 28; null: none")
    expectation_between: Literal["homogeneous", "heterogeneous"] = Field(
        description="which column of Table 2 holds for 0 < beta < 1, where the paper prints none"
    )
    similar_percent: NonNegative = Field(
        description="a change against FedAvg of at most this many percent counts as similar"
    )


def compared_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide whether a number is comparable with the paper's.

    Args:
        config: the whole configuration, as JSON-like data.

    Returns:
        Keys of ``analysis.paper_settings.PAPER_SETTINGS``.
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
