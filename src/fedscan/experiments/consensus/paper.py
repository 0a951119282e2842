"""The published numbers, and which variants of the configuration they stand beside."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from fedscan.analysis.numbers import Key

TABLES = ("consensus",)
CHECKPOINT, WIDTH, DEPTH = "mamba2-130m", 768, 24
# A word in the published quantity's name -> ours; the first that is found counts.
QUANTITIES = {
    "lambda1": "lambda1_end",
    "participation": "participation_end",
    "largest T*": "t_star_largest",
    "T* of the first token": "t_star_first",
}


class Curve(NamedTuple):
    """A published curve, by what it is of."""

    figure: str
    title: str
    weights: str
    gate: float
    silu: bool

    def describes(self, variant: Mapping[str, Any]) -> bool:
        """Return whether a variant of the configuration is of that kind.

        Of the model's own weights it must be the paper's in all else; of redrawn ones every reading
        counts, since the paper does not give their law.
        """
        same = all(variant[name] == getattr(self, name) for name in ("weights", "gate", "silu"))
        plain = variant["conv"] and variant["update"] == "residual" and variant["tau"] == 1
        return same and (self.weights == "redraw" or plain)


ORIGINAL, REPEATED, REDRAWN = "original weights", "one layer repeated", "redrawn every layer"
CURVES = (
    Curve("figure1", f"{ORIGINAL}, SiLU, gate", "cycle", 1.0, True),
    Curve("figure1", f"{ORIGINAL}, SiLU, no gate", "cycle", 0.0, True),
    Curve("figure2", f"{REPEATED}, SiLU, no gate", "repeat", 0.0, True),
    Curve("figure3", f"{REDRAWN}, SiLU, no gate", "redraw", 0.0, True),
    Curve("figure3", f"{REDRAWN}, no SiLU, no gate", "redraw", 0.0, False),
    Curve("figure4", f"{ORIGINAL}, SiLU, no gate", "cycle", 0.0, True),
    Curve("figure5", f"{REDRAWN}, SiLU, no gate", "redraw", 0.0, True),
    Curve("figure6", f"{ORIGINAL}, SiLU, no gate", "cycle", 0.0, True),
    Curve("figure6", f"{ORIGINAL}, no SiLU, no gate", "cycle", 0.0, False),
    Curve("figure6", f"{REDRAWN}, SiLU, no gate", "redraw", 0.0, True),
    Curve("figure6", f"{REDRAWN}, no SiLU, no gate", "redraw", 0.0, False),
)


class Published(NamedTuple):
    """One published number; NaN where the paper says that there is none."""

    curve: Curve
    quantity: str
    value: float
    note: str


def published_numbers(table: pd.DataFrame) -> list[Published]:
    """Read the published numbers.

    Args:
        table: consensus.csv.

    Returns:
        One entry per number of a figure.

    Raises:
        ValueError: if a row is of no known curve or quantity.
    """
    found = []
    for row in table[table["figure_or_table"] != "setting"].to_dict("records"):
        figure, title = row["figure_or_table"], row["variant"]
        curve = next((c for c in CURVES if (c.figure, c.title) == (figure, title)), None)
        quantity = next((q for word, q in QUANTITIES.items() if word in row["quantity"]), None)
        if curve is None or quantity is None:
            raise ValueError(f"consensus.csv: no curve or quantity for {row}")
        note = "" if pd.isna(row["note"]) else str(row["note"])
        found.append(Published(curve, quantity, float(row["value"]), note))
    return found


def variants_of(curve: Curve, variants: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the variants that a published curve stands beside.

    Args:
        curve: of the paper.
        variants: name -> section.
    """
    return (name for name, variant in variants.items() if curve.describes(variant))


def is_the_papers(facts: Mapping[str, Any]) -> bool:
    """Return whether a model is the paper's checkpoint, as far as name and size tell.

    Args:
        facts: row of table ``consensus_model``.
    """
    size = facts["d_model"], facts["layers"]
    return str(facts["source"]).endswith(CHECKPOINT) and size == (WIDTH, DEPTH)


def row_name(model: str, variant: str) -> str:
    """Return how a row is called: it carries the model, so that no stand-in passes for another.

    Args:
        model: name of the model.
        variant: name of the variant.
    """
    return f"{model}: {variant}"


def paper_numbers(
    found: list[Published], models: list[str], variants: Mapping[str, Mapping[str, Any]]
) -> dict[Key, float]:
    """Return the published numbers under the names of our rows.

    Args:
        found: what was published.
        models: names of the models they stand beside.
        variants: name -> section.

    Returns:
        (table, row, quantity) -> number. What no row of ours is of keeps the paper's own name.
    """
    keyed: dict[Key, float] = {}
    for one in found:
        names = [row_name(m, v) for m in models for v in variants_of(one.curve, variants)]
        for name in names or [f"{CHECKPOINT}: {one.curve.title}"]:
            keyed[one.curve.figure, name, one.quantity] = one.value
    return keyed
