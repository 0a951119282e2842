"""Figure: server validation perplexity per round and algorithm."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedscan.analysis.style import LOOKS, NAMES, token_word
from fedscan.experiments.comparison.selection import CONFIGURATION

PANEL = ["depth", "local_steps", "beta"]


def validation_curves(
    rounds: pd.DataFrame, comparison: pd.DataFrame, text: str, tokenizer: str
) -> Figure:
    """Draw a panel per depth, E and beta, a line per algorithm at its selected values.

    Args:
        rounds: table ``all_rounds``.
        comparison: table ``comparison``, one study.
        text: where the text comes from.
        tokenizer: perplexities are per token of it.

    Returns:
        The figure: geometric mean over settings and seeds, range of the seeds' geometric means
        shaded; logarithmic perplexity.
    """
    shown = rounds.merge(comparison[[*CONFIGURATION, "algorithm", "value"]])
    lines = comparison[PANEL[:2]].drop_duplicates().sort_values(PANEL[:2]).to_numpy()
    betas = sorted(comparison["beta"].unique())
    figure = Figure(
        figsize=(max(5.0, 4.4 * len(betas)), 3.2 * len(lines) + 1.2), layout="constrained"
    )
    axes = figure.subplots(len(lines), len(betas), squeeze=False, sharex=True, sharey="row")
    for row, (depth, steps) in enumerate(lines):
        for column, beta in enumerate(betas):
            axis = axes[row][column]
            here = (shown["depth"] == depth) & (shown["local_steps"] == steps)
            _panel(axis, shown[here & (shown["beta"] == beta)])
            axis.set_title(f"β = {beta:g}, depth {depth}, E = {steps}", fontsize=10)
            axis.label_outer()
    handles = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(5, max(1, len(handles))),
        frameon=False,
    )
    figure.suptitle(
        f"Server validation perplexity ({text} text, per {token_word(tokenizer)})", fontsize=11
    )
    return figure


def _panel(axis: Axes, part: pd.DataFrame) -> None:
    for algorithm, look in LOOKS.items():
        rows = part[part["algorithm"] == algorithm]
        if rows.empty:
            continue
        with np.errstate(invalid="ignore"):
            logs = rows.assign(log=np.log(rows["val_ppl"].astype(float)))
        by_seed = logs.groupby(["round", "seed"])["log"].mean().unstack()
        mean = np.exp(by_seed.mean(axis=1))
        axis.plot(mean.index, mean, label=NAMES[algorithm], **look)
        if by_seed.shape[1] > 1:
            low, high = np.exp(by_seed.min(axis=1)), np.exp(by_seed.max(axis=1))
            axis.fill_between(mean.index, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("communication round")
    axis.set_ylabel("perplexity")
    axis.grid(True, which="major", alpha=0.3)
