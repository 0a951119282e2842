"""Merging beside the paper's Tables 29-33, and the displacements of its Appendix F."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from fedscan.analysis.numbers import Key, Number

# Our operators, and the paper's rows, in the order they are shown.
OPERATORS = {"average": "average", "task_arithmetic": "task-arithmetic", "ties": "ties"}
SELECTION = "best of the sweep, selected on the evaluation examples, as in the paper"
TABLES = ("table29", "table30", "table31", "table32", "table33")


class Merged(NamedTuple):
    """Collected tables; ``names`` maps a base to the name its rows carry."""

    accuracy: pd.DataFrame
    merges: pd.DataFrame
    displacements: pd.DataFrame
    task_vectors: pd.DataFrame
    names: Mapping[str, str]


class Selected(NamedTuple):
    """A swept operator's best values at one epoch, and its rows."""

    scale: float
    density: float | None
    rows: pd.DataFrame


def numbers(found: Merged) -> Iterator[Number]:
    """Yield every number of the tables.

    Args:
        found: collected tables.

    Yields:
        Accuracies in per cent: means over seeds of the mean over tasks, and their deviations.
    """
    for base in found.names:
        yield from _table29(found, base)
        yield from _table30(found, base)
        yield from _sweeps(found, base)
        yield from _table33(found, base)
        yield from _displacements(found, base)


def zero_shot(found: Merged, base: str) -> pd.DataFrame:
    """Return the base's own accuracies, one row per task."""
    rows = found.accuracy[found.accuracy["base"] == base]
    return rows[rows["kind"] == "zero_shot"]


def specialists(found: Merged, base: str, mu: float, epoch: int, own: bool) -> pd.DataFrame:
    """Return specialists' accuracies on their own or on the other tasks.

    Args:
        found: collected tables.
        base: name of the base.
        mu: proximal coefficient.
        epoch: epochs of fine-tuning.
        own: which of the two.

    Returns:
        Rows of table ``all_specialist_accuracy``.
    """
    rows = found.accuracy[(found.accuracy["base"] == base) & (found.accuracy["mu"] == mu)]
    same = rows["trained_on"] == rows["evaluated_on"]
    return rows[(rows["epoch"] == epoch) & (same if own else ~same)]


def merged(found: Merged, base: str, operator: str, mu: float, epoch: int) -> pd.DataFrame:
    """Return an operator's accuracies for all its values.

    Args:
        found: collected tables.
        base: name of the base.
        operator: 'average', 'task_arithmetic' or 'ties'.
        mu: proximal coefficient of the specialists.
        epoch: epochs of fine-tuning.

    Returns:
        Rows of table ``all_merges``.
    """
    rows = found.merges[(found.merges["base"] == base) & (found.merges["operator"] == operator)]
    return rows[(rows["mu"] == mu) & (rows["epoch"] == epoch)]


def select(rows: pd.DataFrame) -> Selected | None:
    """Return the values with the highest accuracy averaged over tasks and seeds.

    Args:
        rows: result of ``merged``.

    Returns:
        The best; of equal ones the smallest scale and density. None if no value is complete:
        values with a failed merge are not considered.
    """
    best: tuple[float, Selected] | None = None
    for (scale, density), part in rows.groupby(["scale", "density"], dropna=False, sort=True):
        mean = float(part["accuracy"].mean(skipna=False))
        if pd.notna(mean) and (best is None or mean > best[0]):
            best = mean, Selected(scale, None if pd.isna(density) else density, part)
    return None if best is None else best[1]


def epochs(found: Merged) -> list[int]:
    """Return the checkpoint epochs, ascending."""
    return sorted(int(epoch) for epoch in found.merges["epoch"].unique())


def spread(rows: pd.DataFrame) -> tuple[float, float]:
    """Return mean and sample standard deviation over seeds of the mean over the other axes.

    Args:
        rows: accuracies; a failed one makes its seed's mean NaN.

    Returns:
        Mean, deviation (NaN for a single seed).
    """
    seeds = rows["seed"].astype(object).where(rows["seed"].notna(), "all")
    means = rows.groupby(seeds)["accuracy"].agg(lambda part: part.mean(skipna=False))
    return float(means.mean(skipna=False)), float(means.std(ddof=1, skipna=False))


def _accuracy(table: str, row: str, rows: pd.DataFrame, note: str = "") -> Iterator[Number]:
    if rows.empty:
        return
    mean, deviation = spread(rows)
    yield Number(table, row, "accuracy_mean", mean, note=note)
    if pd.notna(deviation):
        yield Number(table, row, "accuracy_std", deviation, note=note)


def _table29(found: Merged, base: str) -> Iterator[Number]:
    name = found.names[base]
    yield from _accuracy("table29", f"{name} zero-shot epochs=0", zero_shot(found, base))
    for epoch in epochs(found):
        for own, word in ((True, "own"), (False, "other")):
            rows = specialists(found, base, 0.0, epoch, own)
            yield from _accuracy("table29", f"{name} specialists-{word} epochs={epoch}", rows)
        for operator, word in OPERATORS.items():
            best = select(merged(found, base, operator, 0.0, epoch))
            row = f"{name} {word} epochs={epoch}"
            if best is None:
                continue
            swept = operator != "average"
            yield from _accuracy("table29", row, best.rows, SELECTION if swept else "")
            if swept:
                yield Number("table29", row, "lambda", best.scale)
            if best.density is not None:
                yield Number("table29", row, "density", best.density)


def _table30(found: Merged, base: str) -> Iterator[Number]:
    name, last = found.names[base], max(epochs(found))
    parts = {"zero-shot": zero_shot(found, base)}
    parts["specialists-own"] = specialists(found, base, 0.0, last, own=True)
    for operator, word in OPERATORS.items():
        best = select(merged(found, base, operator, 0.0, last))
        if best is not None:
            parts[word] = best.rows
    for model, rows in parts.items():
        for task, part in rows.groupby("evaluated_on", sort=False):
            yield from _accuracy("table30", f"{name} {model} {task}", part)


def _sweeps(found: Merged, base: str) -> Iterator[Number]:
    name, last = found.names[base], max(epochs(found))
    for epoch in epochs(found):
        rows = merged(found, base, "task_arithmetic", 0.0, epoch)
        for scale, part in rows.groupby("scale"):
            yield from _accuracy("table31", f"{name} epochs={epoch} lambda={scale:g}", part)
    rows = merged(found, base, "ties", 0.0, last)
    for (scale, density), part in rows.groupby(["scale", "density"]):
        yield from _accuracy("table32", f"{name} lambda={scale:g} density={density:g}", part)


def _table33(found: Merged, base: str) -> Iterator[Number]:
    name = found.names[base]
    for mu in sorted(found.merges["mu"].unique()):
        for epoch in epochs(found):
            parts = {
                "specialists-own": specialists(found, base, mu, epoch, own=True),
                "average": merged(found, base, "average", mu, epoch),
            }
            for model, rows in parts.items():
                row = f"{name} {model} mu={mu:g} epochs={epoch}"
                yield from _accuracy("table33", row, rows)


def _displacements(found: Merged, base: str) -> Iterator[Number]:
    """Yield what Appendix F asks about: cancellation, containment, first-order descent."""
    note = "the paper: 1.04 to 1.07 for Mamba2-780M"
    vectors = found.task_vectors[found.task_vectors["base"] == base]
    for (mu, epoch), part in vectors.groupby(["mu", "epoch"]):
        row = f"{base} mu={mu:g} epochs={epoch}"
        yield Number("displacements", row, "sum_ratio", float(part["sum_ratio"].mean()), note=note)
        yield Number("displacements", row, "mean_norm", float(part["norm"].mean()))
        yield Number("displacements", row, "mean_alignment", float(part["alignment"].mean()))
    merges = found.displacements[found.displacements["base"] == base]
    done = merges[merges["status"] == "completed"]
    for operator, part in done.groupby("operator", sort=False):
        row = f"{base} {OPERATORS[str(operator)]}"
        yield Number("displacements", row, "merges", len(part))
        yield Number("displacements", row, "contained", int(part["contained"].sum()))
        yield Number(
            "displacements", row, "descent_predicted", int((part["first_order"] < 0).sum())
        )
        fell = int((part["loss"] < part["base_loss"]).sum())
        yield Number("displacements", row, "loss_fell", fell)


def paper_numbers(tables: Mapping[str, pd.DataFrame], names: Mapping[str, str]) -> dict[Key, float]:
    """Return the published numbers of the checkpoints that bases are compared with.

    Args:
        tables: 'table29' ... 'table33' -> their CSVs.
        names: base -> the name its rows carry.

    Returns:
        (table, row, quantity) -> per cent.
    """
    patterns = {
        "table29": "{checkpoint} {model} epochs={epochs}",
        "table30": "{checkpoint} {model} {task}",
        "table31": "{checkpoint} epochs={epochs} lambda={lambda:g}",
        "table32": "{checkpoint} lambda={lambda:g} density={density:g}",
        "table33": "Mamba2-130M {model} mu={mu:g} epochs={epochs}",
    }
    found: dict[Key, float] = {}
    for table, pattern in patterns.items():
        for row in tables[table].to_dict("records"):
            if row.get("checkpoint", "Mamba2-130M") in names.values():
                label = pattern.format(**{str(key): value for key, value in row.items()})
                for quantity in ("accuracy_mean", "accuracy_std"):
                    found[table, label, quantity] = row[quantity]
    return found
