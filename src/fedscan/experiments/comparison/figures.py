"""Figures on the comparison: curves, changes by configuration, selected values, ablations."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from fedscan.analysis.style import CHANGE_MAP, LOOKS, NAMES, nothing_to_show, panel, token_word
from fedscan.experiments.comparison.curves import validation_curves
from fedscan.experiments.comparison.selection import BASELINE, CONFIGURATION
from fedscan.models.architecture import MAMBA2
from fedscan.models.backbones import BACKBONES

# Numbers are written into the cells of a heat map up to this many rows.
WRITTEN = 24
# Inches of a figure with a line per algorithm.
SIZE = (6.4, 4.6)
# Backbones by falling number of Mamba2 layers, counted at a depth that all shares divide.
SSM_SHARE_ORDER = sorted(BACKBONES, key=lambda name: -BACKBONES[name](16).count(MAMBA2))


def change_heat_map(comparison: pd.DataFrame) -> Figure:
    """Draw the change against FedAvg per configuration and algorithm.

    Args:
        comparison: table ``comparison``, one study.

    Returns:
        Rows: configurations by beta, E, depth, setting; the colour scale ends at the 95th
        percentile of absolute changes.
    """
    order = ["beta", "local_steps", "depth", "setting"]
    rows = comparison[comparison["algorithm"] != BASELINE]
    table = rows.pivot_table(
        index=order, columns="algorithm", values="change_percent", dropna=False, aggfunc="mean"
    )
    table = table.dropna(how="all")[[name for name in NAMES if name in table.columns]]
    if table.empty:
        return nothing_to_show("no algorithm to compare with FedAvg")
    values = table.to_numpy(float)
    width, height = 1.0 * table.shape[1] + 3.2, max(0.32 * len(table) + 1.9, 3.4)
    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    end = max(float(np.nanpercentile(np.abs(values), 95)), 1e-9)
    image = axis.imshow(values, cmap=CHANGE_MAP, vmin=-end, vmax=end, aspect="auto")
    names = [f"β={b:g}  E={e}  depth {d}  setting {s}" for b, e, d, s in table.index]
    axis.set_yticks(range(len(table)), names, fontsize=8)
    axis.set_xticks(range(table.shape[1]), [NAMES[name] for name in table], rotation=35, ha="right")
    if len(table) <= WRITTEN:
        for (row, column), value in np.ndenumerate(values):
            strong = abs(value) > 0.6 * end
            text = "n/a" if np.isnan(value) else f"{value:+.1f}"
            axis.text(column, row, text, ha="center", va="center", fontsize=8,
                      color="white" if strong else "black")  # fmt: skip
    bar = figure.colorbar(image, ax=axis, extend="both", fraction=0.05, aspect=30)
    bar.set_label("change against FedAvg, %")
    return figure


def tuned_values(comparison: pd.DataFrame, rounds: pd.DataFrame) -> Figure:
    """Draw which hyperparameter value was selected at each beta and E.

    Args:
        comparison: table ``comparison``, one study.
        rounds: table ``all_rounds``: it has the values that were tried.

    Returns:
        A panel per algorithm that had a choice: share of configurations that selected a value.
    """
    tried = rounds.merge(comparison[[*CONFIGURATION, "algorithm"]].drop_duplicates())
    values = tried.groupby("algorithm")["value"].unique()
    chosen = comparison[comparison["value"] != "-"]
    names = [name for name in NAMES if name in set(chosen["algorithm"]) and len(values[name]) > 1]
    if not names:
        return nothing_to_show("every algorithm had one value: nothing was selected")
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    size = (max(5.4, 3.0 * columns + 1), 3.6 * lines)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes, names, strict=False):
        part = chosen[chosen["algorithm"] == name]
        counts = pd.crosstab(part["value"], [part["beta"], part["local_steps"]])
        shares = (counts / counts.sum()).reindex(_ascending(values[name]), fill_value=0.0)
        image = axis.imshow(shares.to_numpy(float), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axis.set_title(NAMES[name], fontsize=10)
        axis.set_yticks(range(len(shares)), _varying_words(list(shares.index)), fontsize=8)
        cells = [f"β {beta:g}, E {steps}" for beta, steps in shares.columns]
        axis.set_xticks(range(len(cells)), cells, rotation=60, ha="right", fontsize=7)
    figure.colorbar(image, ax=list(axes), label="share of configurations", fraction=0.05)
    return figure


def client_count(comparison: pd.DataFrame, tokenizer: str) -> Figure:
    """Draw last-10 perplexity against the number of clients.

    Args:
        comparison: table ``comparison``, the study of Table 27.
        tokenizer: perplexities are per token of it.

    Returns:
        A line per algorithm: geometric mean over the study's other axes.
    """
    figure, axis = panel(SIZE)
    for name, part in _by_algorithm(comparison):
        means = part.groupby("clients")["log"].mean()
        axis.plot(means.index, np.exp(means), marker="o", label=NAMES[name], **LOOKS[name])
    ticks = sorted(comparison["clients"].unique())
    axis.set_xscale("log")
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("clients K")
    return _finish(figure, axis, tokenizer)


def backbones(comparison: pd.DataFrame, tokenizer: str) -> Figure:
    """Draw last-10 perplexity by backbone.

    Args:
        comparison: table ``comparison``, the study of Table 28.
        tokenizer: perplexities are per token of it.

    Returns:
        A line of points per algorithm, backbones by falling share of Mamba2 layers.
    """
    figure, axis = panel(SIZE)
    names = [name for name in SSM_SHARE_ORDER if name in set(comparison["backbone"])]
    for algorithm, part in _by_algorithm(comparison):
        means = part.groupby("backbone")["log"].mean()
        present = [name for name in names if name in means.index]
        axis.plot([names.index(name) for name in present], np.exp(means[present]), marker="o",
                  label=NAMES[algorithm], **LOOKS[algorithm])  # fmt: skip
    axis.set_xticks(range(len(names)), names)
    axis.set_xlabel("backbone (share of Mamba2 layers falls to the right)")
    return _finish(figure, axis, tokenizer)


def figures(
    comparison: pd.DataFrame,
    rounds: pd.DataFrame,
    roles: Mapping[str, object],
    described: Mapping[str, object],
) -> dict[str, Callable[[], Figure]]:
    """Name every figure on the comparison.

    Args:
        comparison: table ``comparison``, all studies.
        rounds: table ``all_rounds``.
        roles: 'grid', 'client_count' and 'backbone' -> the study, or None.
        described: 'text' and 'tokenizer' of the run.

    Returns:
        File stem -> function that draws it.
    """
    text, tokenizer = str(described["text"]), str(described["tokenizer"])

    def study(role: str) -> pd.DataFrame:
        return comparison[comparison["study"] == roles[role]]

    found: dict[str, Callable[[], Figure]] = {
        "validation_curves": lambda: validation_curves(rounds, study("grid"), text, tokenizer),
        "change_heat_map": lambda: change_heat_map(study("grid")),
        "tuned_values": lambda: tuned_values(study("grid"), rounds),
    }
    if roles["client_count"] is not None:
        found["client_count"] = lambda: client_count(study("client_count"), tokenizer)
    if roles["backbone"] is not None:
        found["backbones"] = lambda: backbones(study("backbone"), tokenizer)
    return found


def _by_algorithm(comparison: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    rows = comparison.dropna(subset=["val_ppl_last10_mean"])
    rows = rows.assign(log=np.log(rows["val_ppl_last10_mean"].astype(float)))
    return [
        (name, rows[rows["algorithm"] == name])
        for name in NAMES
        if (rows["algorithm"] == name).any()
    ]


def _finish(figure: Figure, axis: Axes, tokenizer: str) -> Figure:
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_ylabel(f"last-10 validation perplexity per {token_word(tokenizer)}")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=5,
                  frameon=False, fontsize=8)  # fmt: skip
    return figure


def _ascending(values: Iterable[str]) -> list[str]:
    """Sort 'a=1,b=2' by the numbers in them."""

    def numbers(value: str) -> list[tuple[float, str]]:
        found = []
        for part in value.split(","):
            text = part.partition("=")[2]
            number = pd.to_numeric(text, errors="coerce")
            found.append((float("inf") if pd.isna(number) else float(number), text))
        return found

    return sorted(values, key=numbers)


def _varying_words(values: Sequence[str]) -> list[str]:
    """Name only the hyperparameters that differ between the values."""
    parts = [value.split(",") for value in values]
    shared = set(parts[0]).intersection(*parts[1:])
    return [", ".join(word for word in words if word not in shared) for words in parts]
