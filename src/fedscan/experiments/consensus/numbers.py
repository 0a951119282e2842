"""Consensus over depth beside the published numbers, and what training and merging do to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedscan.analysis import intervals
from fedscan.analysis.numbers import Number
from fedscan.experiments.consensus.paper import (
    CURVES,
    Published,
    is_the_papers,
    row_name,
    variants_of,
)
from fedscan.experiments.consensus.study_numbers import MEASURES, merge_numbers, run_numbers
from fedscan.experiments.consensus.theory_numbers import numbers as theory_numbers

# "The end" is the mean of this last share of the depths.
END_SHARE = 0.1
NOT_ESTABLISHED = (
    "one reading of the paper's random weights, fitted to its ends, not a reproduction"
)
STAND_IN = "not the paper's checkpoint but a stand-in"


class Model(NamedTuple):
    """Tables of one model; ``facts`` is its row of ``consensus_model``."""

    facts: Mapping[str, Any]
    curves: pd.DataFrame
    windows: pd.DataFrame
    minima: pd.DataFrame
    layers: pd.DataFrame


class Found(NamedTuple):
    """Everything that was measured; a part that is switched off is None.

    Attributes:
        models: by name.
        variants: name -> section.
        runs: table ``consensus_runs``.
        merges: table ``consensus_merges``.
        instances: table ``consensus_instances``.
        source: what tokens are.
    """

    models: Mapping[str, Model]
    variants: Mapping[str, Mapping[str, Any]]
    runs: pd.DataFrame | None
    merges: pd.DataFrame | None
    instances: pd.DataFrame | None
    source: str


def numbers(found: Found, published: Sequence[Published]) -> Iterator[Number]:
    """Yield every number of the tables.

    Args:
        found: what was measured.
        published: the paper's numbers, for notes.

    Yields:
        Figures 1-6, all variants, runs, merges, theory.
    """
    for name in found.models:
        yield from _figures(found, name, published)
    for name in found.models:
        yield from _variants(found, name)
    if found.runs is not None:
        yield from run_numbers(found.runs)
    if found.merges is not None:
        yield from merge_numbers(found.merges)
    if found.instances is not None:
        yield from theory_numbers(found.instances)


def ends(model: Model, variant: str) -> pd.DataFrame:
    """Return where each draw ends: means over the last depths, of its completed curves.

    Args:
        model: tables.
        variant: name.

    Returns:
        Index draw; a column per measure. Of a repeated variant the median over layers.
    """
    rows = model.curves
    last = int(model.facts["depth"])
    counted = max(1, round(END_SHARE * last))
    rows = rows[(rows["variant"] == variant) & (rows["depth"] > last - counted)]
    rows = rows[rows["status"] == "completed"]
    per_layer = rows.groupby(["layer", "draw"])[list(MEASURES)].mean()
    return per_layer.groupby("draw").median()


def ends_of_layers(model: Model, variant: str) -> pd.DataFrame:
    """Return where each repeated layer ends, mean over draws.

    Args:
        model: tables.
        variant: name.

    Returns:
        Index layer; a column per measure.
    """
    rows = model.curves
    last = int(model.facts["depth"])
    counted = max(1, round(END_SHARE * last))
    rows = rows[(rows["variant"] == variant) & (rows["depth"] > last - counted)]
    return rows[rows["status"] == "completed"].groupby("layer")[list(MEASURES)].mean()


def largest_t_star(model: Model, variant: str, quantity: str) -> tuple[float, int, int]:
    """Return the largest T* over tokens and draws.

    Args:
        model: tables.
        variant: name.
        quantity: 'q_token' or 'q_layer'.

    Returns:
        The largest, NaN as soon as one token has none; how many have none; how many there are. Of
        a repeated variant over all layers.
    """
    rows = model.windows
    rows = rows[(rows["variant"] == variant) & (rows["quantity"] == quantity)]
    rows = rows[rows["status"] == "completed"]
    without = int(rows["t_star"].isna().sum())
    largest = float(rows["t_star"].max()) if len(rows) and not without else np.nan
    return largest, without, len(rows)


def failed_draws(model: Model, variant: str) -> int:
    """Count a variant's failed draws, over its layers.

    Args:
        model: tables.
        variant: name.
    """
    rows = model.curves[(model.curves["variant"] == variant) & (model.curves["depth"] == 0)]
    return int((rows["status"] == "failed").sum())


def _figures(found: Found, name: str, published: Sequence[Published]) -> Iterator[Number]:
    model = found.models[name]
    for curve in CURVES:
        said = [p for p in published if p.curve == curve]
        for variant in variants_of(curve, found.variants):
            row = row_name(name, variant)
            for quantity in dict.fromkeys(p.quantity for p in said):
                words = "; ".join(p.note for p in said if p.quantity == quantity and p.note)
                note = _note(found, model, variant, words)
                yield from _of_figure(model, variant, curve.figure, row, quantity, note)


def _of_figure(
    model: Model, variant: str, figure: str, row: str, quantity: str, note: str
) -> Iterator[Number]:
    if quantity.endswith("_end"):
        yield _end(figure, row, model, variant, quantity, note)
    elif quantity == "t_star_first":
        for term, suffix in (("q_token", ""), ("q_layer", "_q_layer")):
            value, word = _first_token(model, variant, term)
            yield Number(figure, row, f"{quantity}{suffix}", value, note=_joined(word, note))
    else:
        for term, suffix in (("q_token", ""), ("q_layer", "_q_layer")):
            value, without, count = largest_t_star(model, variant, term)
            word = f"none: {without} of {count} tokens have none" if without else ""
            yield Number(figure, row, f"{quantity}{suffix}", value, note=_joined(word, note))
            yield Number(figure, row, f"without_t_star{suffix}", without, note=f"of {count} tokens")


def _end(table: str, row: str, model: Model, variant: str, quantity: str, note: str) -> Number:
    measure = quantity.removesuffix("_end")
    values = ends(model, variant)[measure].to_numpy()
    if not len(values):
        return Number(table, row, quantity, np.nan, note=_joined("every draw failed", note))
    estimate = intervals.mean(values)
    layers = ends_of_layers(model, variant)[measure]
    word = ""
    if len(layers) > 1:
        word = (
            f"median of {len(layers)} layers, which end at {layers.min():.3g} to {layers.max():.3g}"
        )
    return Number(table, row, quantity, *estimate, note=_joined(word, note))


def _first_token(model: Model, variant: str, quantity: str) -> tuple[float, str]:
    rows = model.windows
    rows = rows[(rows["variant"] == variant) & (rows["quantity"] == quantity)]
    rows = rows[(rows["draw"] == 0) & (rows["token"] == 0)]
    if not (rows["status"] == "completed").all():
        return np.nan, "the draw failed"
    if rows["t_star"].isna().any():
        return np.nan, "none: no window within the run is positive throughout"
    return float(rows["t_star"].median()), ""


def _note(found: Found, model: Model, variant: str, words: str) -> str:
    facts = model.facts
    parts = [] if is_the_papers(facts) else [STAND_IN]
    if found.variants[variant]["weights"] == "redraw":
        parts.append(NOT_ESTABLISHED)
    failed = failed_draws(model, variant)
    if failed:
        parts.append(f"{failed} failed draws left out")
    parts.append(
        f"{facts['source']}, {facts['parameters']:,} parameters, {facts['layers']} layers, ids"
        f" below {facts['vocabulary']}, {facts['tokens']} tokens, depth {facts['depth']},"
        f" {facts['draws']} draws, {found.source} tokens"
    )
    if facts["paper"]:
        parts.append(f"the paper: {_joined('mamba2-130m, 50 tokens, depth 200, 50 draws', words)}")
    return "; ".join(parts)


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _variants(found: Found, name: str) -> Iterator[Number]:
    model = found.models[name]
    for variant in found.variants:
        row, note = row_name(name, variant), ""
        failed = failed_draws(model, variant)
        if failed:
            note = f"{failed} failed draws left out"
        for measure in MEASURES:
            yield _end("variants", row, model, variant, f"{measure}_end", note)
        switching = switching_share(model, variant)
        if switching is not None:
            yield Number("variants", row, "switching_share", *intervals.mean(switching))
        rows = model.windows[
            (model.windows["variant"] == variant) & (model.windows["quantity"] == "q_token")
        ]
        yield Number("variants", row, "negative_share", float(rows["negative_share"].mean()))
        finite = rows["margin"].dropna()
        word = f"{len(rows) - len(finite)} of {len(rows)} tokens have no negative value"
        value = float(finite.median()) if len(finite) else np.nan
        yield Number("variants", row, "median_margin", value, note=word)


def switching_share(model: Model, variant: str) -> np.ndarray | None:
    """Return the share of depths at which the largest head is another than one layer before.

    Args:
        model: tables.
        variant: name.

    Returns:
        Per layer and draw; None where there are no heads.
    """
    rows = model.curves[(model.curves["variant"] == variant) & (model.curves["depth"] > 0)]
    rows = rows[rows["status"] == "completed"].dropna(subset="top_head")
    shares = [
        float((part["top_head"].to_numpy()[1:] != part["top_head"].to_numpy()[:-1]).mean())
        for _, part in rows.sort_values("depth").groupby(["layer", "draw"])
        if len(part) > 1
    ]
    return np.array(shares) if shares else None
