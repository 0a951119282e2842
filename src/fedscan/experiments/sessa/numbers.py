"""What mixers came to, in numbers: the paper's two tables, and what it does not print."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedscan.analysis import intervals
from fedscan.analysis.numbers import Number
from fedscan.experiments.sessa.paper import row_name
from fedscan.experiments.sessa.selection import best_rate

NOT_COMPARABLE = "other sizes, data and steps than the paper's"
REGIME_SHOWN = ("rho", "c2", "eta", "implied_beta", "gain_median", "hops_0", "heads_that_forget")


class Found(NamedTuple):
    """Tables of this room; keys of paths are columns.

    Attributes:
        runs: ``sessa_runs``.
        curves: ``sessa_curves``.
        accuracy: ``sessa_accuracy``.
        jacobians: ``sessa_jacobians``.
        decay: ``sessa_decay``.
        regime: ``sessa_regime``.
        diagnosed: ``sessa_diagnosed``.
        federated_runs: ``sessa_federated_runs``; None if the part is switched off.
        federated_rounds: ``sessa_federated_rounds``.
        claims: ``sessa_claims``.
        retrieval: ``sessa_retrieval``.
        baselines: task -> name -> accuracy without learning.
        tokenizers: task -> name of its ids.
        gains: of the random instances.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    accuracy: pd.DataFrame
    jacobians: pd.DataFrame
    decay: pd.DataFrame
    regime: pd.DataFrame
    diagnosed: pd.DataFrame
    federated_runs: pd.DataFrame | None
    federated_rounds: pd.DataFrame | None
    claims: pd.DataFrame
    retrieval: pd.DataFrame
    baselines: Mapping[str, Mapping[str, float]]
    tokenizers: Mapping[str, str]
    gains: list[float]


def chosen(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of every model's best learning rate.

    Args:
        runs: table ``sessa_runs`` with columns ``task`` and ``mixer``.

    Returns:
        Per task, mixer and width the runs of ``best_rate``.
    """
    parts = []
    for _, group in runs.groupby(["task", "mixer", "width"], sort=False):
        best = best_rate(group.to_dict("records"))
        if best is not None:
            parts.append(group[group["lr"] == best])
    return pd.concat(parts, ignore_index=True) if parts else runs.iloc[:0]


def selected(found: Found) -> pd.DataFrame:
    """Return the accuracies of the chosen runs.

    Args:
        found: tables.

    Returns:
        Rows of ``sessa_accuracy``.
    """
    keys = ["task", "mixer", "width", "seed", "lr"]
    return found.accuracy.merge(chosen(found.runs)[keys], on=keys)


def numbers(found: Found) -> Iterator[Number]:
    """Yield all numbers but those of the theory.

    Args:
        found: tables.

    Yields:
        Tables 1 and 2, the control, then what is ours.
    """
    rows = selected(found)
    yield from _published(rows)
    yield from _accuracy(rows, found)
    yield from _groups(rows)
    yield from _recall(rows)
    yield from _training(found)
    yield from _loop_off(found.diagnosed)
    yield from _decay(found.decay)
    yield from _regime(found.regime)
    if found.federated_runs is not None:
        yield from _federated(found.federated_runs)


def _mean(table: str, row: str, quantity: str, values: pd.Series, note: str) -> Number:
    """Return a mean over seeds; the standard deviation (n - 1) is in the note."""
    values = values.dropna().to_numpy(float)
    if not len(values):
        return Number(table, row, quantity, math.nan, note=f"no completed run; {note}")
    spread = f", std {values.std(ddof=1):.4f}" if len(values) > 1 else ""
    word = f"{len(values)} seed(s){spread}; {note}"
    return Number(table, row, quantity, *intervals.mean(values), note=word)


def _whole(rows: pd.DataFrame, split: str = "test", factor: int = 1) -> pd.DataFrame:
    same = (rows["group"] == "all") & (rows["split"] == split) & (rows["factor"] == factor)
    return rows[same]


def _published(rows: pd.DataFrame) -> Iterator[Number]:
    """Yield ours of what the paper prints; mqar over all lag factors, its largest test being 4x."""
    whole = rows[(rows["group"] == "all") & (rows["split"] == "test")]
    for (task, mixer), own in whole.groupby(["task", "mixer"], sort=False):
        row, first = row_name(str(task), str(mixer)), own[own["factor"] == 1]
        if task == "soup":
            yield _mean("table1", row, "test_accuracy", first["accuracy"], NOT_COMPARABLE)
        if task == "mqar":
            over = own.groupby("seed")["accuracy"].mean()
            note = f"mean over lag factors; {NOT_COMPARABLE}"
            yield _mean("table1", row, "test_token_accuracy", over, note)
        if task == "stories":
            perplexity = first["loss"].map(math.exp)
            named = {
                "perplexity": perplexity,
                "top1_accuracy_percent": 100 * first["accuracy"],
                "top5_accuracy_percent": 100 * first["top5"],
            }
            for quantity, values in named.items():
                yield _mean("table2", row, quantity, values, NOT_COMPARABLE)
                if mixer in ("sessa", "sessa_no_feedback") and quantity[:4] != "top5":
                    yield _mean("control", row, quantity, values, NOT_COMPARABLE)


def _accuracy(rows: pd.DataFrame, found: Found) -> Iterator[Number]:
    whole = rows[(rows["group"] == "all") & (rows["split"] == "test")]
    for (task, mixer, width, factor), own in whole.groupby(
        ["task", "mixer", "width", "factor"], sort=False
    ):
        row = row_name(str(task), str(mixer)) + (f" x{factor}" if factor > 1 else "")
        if task == "recall":
            row += f" width {width}"
        note = f"{int(own['answers'].iloc[0])} answers"
        yield _mean("accuracy", row, "accuracy", own["accuracy"], note)
        if own["bits_per_byte"].notna().all():
            tokens = f"{found.tokenizers[str(task)]} tokens"
            yield _mean("accuracy", row, "bits_per_byte", own["bits_per_byte"], tokens)
        if own["ceiling"].notna().all():
            share = own["accuracy"] / own["ceiling"]
            ceiling = f"best possible {own['ceiling'].iloc[0]:.3f}"
            yield _mean("accuracy", row, "accuracy_of_ceiling", share, ceiling)
    for task, rules in found.baselines.items():
        for name, value in rules.items():
            yield Number("accuracy", task, name, value, note="without learning")
    for (task, factor), own in whole.groupby(["task", "factor"], sort=False):
        if own["ceiling"].notna().all():
            row = str(task) + (f" x{factor}" if factor > 1 else "")
            value = float(own["ceiling"].iloc[0])
            yield Number("accuracy", row, "ceiling", value, note="the Bayes rule, same sequences")


def _groups(rows: pd.DataFrame) -> Iterator[Number]:
    """Yield accuracies by lag, order, shorter block, position."""
    inner = rows[(rows["split"] == "test") & ~rows["group"].isin(["all", "pairs", "class"])]
    keys = ["task", "mixer", "width", "group", "value"]
    inner = inner.assign(right=inner["accuracy"] * inner["answers"])
    sums = inner.groupby([*keys, "seed"], sort=False)[["right", "answers"]].sum()
    shares = (sums["right"] / sums["answers"]).rename("share").reset_index()
    counts = sums["answers"].groupby(keys, sort=False).first()
    for key, own in shares.groupby(keys, sort=False):
        task, mixer, width, group, value = key
        row = row_name(str(task), str(mixer)) + (f" width {width}" if task == "recall" else "")
        note = f"{int(counts[key])} answers, all test factors"
        yield _mean("groups", f"{row}, {group} {value}", "accuracy", own["share"], note)


def _recall(rows: pd.DataFrame) -> Iterator[Number]:
    own = rows[(rows["group"] == "pairs") & (rows["split"] == "test") & (rows["factor"] == 1)]
    for (mixer, width, pairs), part in own.groupby(["mixer", "width", "value"], sort=False):
        row = f"{mixer}, {pairs} pairs"
        yield _mean("recall", row, f"accuracy_width_{width}", part["accuracy"], "equal widths")


def _training(found: Found) -> Iterator[Number]:
    best = chosen(found.runs)
    for (task, mixer, width), all_runs in found.runs.groupby(["task", "mixer", "width"]):
        own = best[(best["task"] == task) & (best["mixer"] == mixer) & (best["width"] == width)]
        row = row_name(str(task), str(mixer)) + (f" width {width}" if task == "recall" else "")
        failed = int((all_runs["status"] == "failed").sum())
        tried = f"{all_runs['lr'].nunique()} learning rates, {failed} failed runs"
        first = all_runs.iloc[0]
        size = f"d_model {first['d_model']}, d_state {first['d_state']}"
        yield Number("models", row, "parameters", int(first["parameters"]), note=size)
        if own.empty:
            yield Number("models", row, "lr", math.nan, note=f"none was completed; {tried}")
            continue
        yield Number("models", row, "lr", float(own["lr"].iloc[0]), note=tried)
        yield _mean("models", row, "train_loss", own["train_loss"], "last quarter of the steps")
        if own["chance_loss"].notna().all():
            below = int((own["train_loss"] < own["chance_loss"]).sum())
            note = f"of {len(own)} seeds: mean loss of the last quarter below a uniform guess's"
            yield Number("models", row, "seeds_below_chance", below, note=note)
            steps = own["steps_to_beat_chance"].dropna()
            note = f"{len(steps)} of {len(own)} seeds beat it within {int(own['steps'].max())}"
            value = float(steps.mean()) if len(steps) else math.nan
            yield Number("models", row, "steps_to_beat_chance", value, note=note)


def _loop_off(diagnosed: pd.DataFrame) -> Iterator[Number]:
    done = diagnosed[diagnosed["accuracy_no_gain"].notna() & (diagnosed["weights"] == "trained")]
    for (task, mixer), own in done.groupby(["task", "mixer"], sort=False):
        change = own["accuracy_no_gain"] - own["accuracy"]
        note = "all gains set to 0 when tested; what the loop carries"
        row = row_name(str(task), str(mixer))
        yield _mean("loop_off", row, "accuracy_change", change, note)
        yield _mean("loop_off", row, "loss_change", own["loss_no_gain"] - own["loss"], note)


def _decay(decay: pd.DataFrame) -> Iterator[Number]:
    shown = decay[decay["kind"].isin(["feedback", "mixer", "block", "stack"])]
    keys = ["task", "mixer", "weights", "kind"]
    for (task, mixer, weights, kind), own in shown.groupby(keys, sort=False):
        counts = own["decay_class"].value_counts(sort=False).sort_index()
        named = ", ".join(f"{name} {count}" for name, count in counts.items())
        row = f"{row_name(str(task), str(mixer))}, {weights}, {kind}"
        values = own["beta"].dropna().to_numpy(float)
        value = float(np.median(values)) if len(values) else math.nan
        note = f"median over layers, heads, seeds; smallest AIC: {named}"
        yield Number("decay", row, "beta", value, note=note)


def _regime(regime: pd.DataFrame) -> Iterator[Number]:
    shown = regime[regime["quantity"].isin(REGIME_SHOWN) & (regime["weights"] != "diffuse")]
    keys = ["task", "mixer", "layer", "weights", "quantity"]
    for (task, mixer, layer, weights, quantity), own in shown.groupby(keys, sort=False):
        row = f"{row_name(str(task), str(mixer))}, layer {layer}, {weights}"
        yield _mean("regime", row, str(quantity), own["value"], "test sequences")


def _federated(runs: pd.DataFrame) -> Iterator[Number]:
    keys = ["task", "mixer", "algorithm", "value", "beta", "gain_limit"]
    for key, own in runs.groupby(keys, sort=False, dropna=False):
        task, mixer, algorithm, value, beta, limit = key
        row = f"{row_name(str(task), str(mixer))}, {algorithm} {value}, beta {beta:g}"
        row += "" if pd.isna(limit) else f", |b| <= {limit:g}"
        failed = int((own["status"] == "failed").sum())
        note = f"{failed} failed; {int(own['rounds'].max())} rounds"
        yield _mean("federated", row, "test_accuracy", own["test_accuracy"], note)
        yield _mean("federated", row, "test_loss", own["test_loss"], note)
