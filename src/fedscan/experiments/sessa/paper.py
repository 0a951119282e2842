"""The published numbers, and what of this room stands beside them."""

from collections.abc import Mapping

import pandas as pd

from fedscan.analysis.numbers import Key

TABLES = ("sessa",)
# Published name of a model -> ours.
MODELS = {
    "Sessa": "sessa",
    "Transformer": "mha",
    "Mamba2": "mamba2",
    "Sessa without feedback": "sessa_no_feedback",
}
# Published name of a task -> ours.
TASKS = {"SymbolSoup": "soup", "Diffuse MQAR": "mqar", "SimpleStories": "stories"}
PLACES = {"Table 1": "table1", "Table 2": "table2", "Section 5.2": "control"}


def row_name(task: str, mixer: str) -> str:
    """Return the row of a task and a model.

    Args:
        task: our name.
        mixer: our name.
    """
    return f"{task} {mixer}"


def paper_numbers(tables: Mapping[str, pd.DataFrame]) -> dict[Key, float]:
    """Return the published numbers, keyed like ours.

    Args:
        tables: the paper's, by name.

    Returns:
        (table, row, quantity) -> value; perplexities and shares in percent as published.
    """
    found: dict[Key, float] = {}
    for row in tables["sessa"].to_dict("records"):
        table = PLACES.get(row["table_or_figure"])
        if table is None or row["model"] not in MODELS or row["task"] not in TASKS:
            continue
        key = (table, row_name(TASKS[row["task"]], MODELS[row["model"]]), row["quantity"])
        found[key] = float(row["value"])
    return found
