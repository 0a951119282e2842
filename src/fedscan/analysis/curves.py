"""Figure: server validation perplexity per round and algorithm."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedscan.analysis.selection import CONFIGURATION
from fedscan.analysis.style import LOOKS, NAMES


def validation_curves(rounds: pd.DataFrame, comparison: pd.DataFrame) -> Figure:
    """Draw one panel per configuration, one line per algorithm at its selected value.

    Args:
        rounds: table ``all_rounds``.
        comparison: table ``comparison``.

    Returns:
        The figure: mean over seeds, range of the seeds shaded; logarithmic perplexity.
    """
    shown = rounds.merge(comparison[[*CONFIGURATION, "algorithm", "value"]])
    panels = comparison[CONFIGURATION].drop_duplicates().to_dict("records")
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.6 * lines + 1.1), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    varying = [name for name in CONFIGURATION if comparison[name].nunique() > 1]
    for axis, panel in zip(axes, panels, strict=False):
        part = shown
        for name, value in panel.items():
            part = part[part[name] == value]
        _panel(axis, part)
        title = ", ".join(
            f"{_word(name)} {panel[name]:g}" if name == "beta" else f"{_word(name)} {panel[name]}"
            for name in varying
        )
        axis.set_title(title or "validation perplexity", fontsize=10)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    source, tokenizer = comparison["data_source"].iloc[0], comparison["tokenizer"].iloc[0]
    handles = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(5, max(1, len(handles))),
        frameon=False,
    )
    figure.suptitle(
        f"Server validation perplexity ({source} text, per {_token(tokenizer)})", fontsize=11
    )
    return figure


def _panel(axis: Axes, part: pd.DataFrame) -> None:
    for algorithm, look in LOOKS.items():
        rows = part[part["algorithm"] == algorithm]
        if rows.empty:
            continue
        by_round = rows.groupby("round")["val_ppl"]
        mean = by_round.mean()
        axis.plot(mean.index, mean, label=NAMES[algorithm], **look)
        if rows["seed"].nunique() > 1:
            low, high = by_round.min(), by_round.max()
            axis.fill_between(mean.index, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("communication round")
    axis.set_ylabel("perplexity")
    axis.grid(True, which="major", alpha=0.3)


def _word(name: str) -> str:
    return {"beta": "β", "local_steps": "E", "clients": "K"}.get(name, name)


def _token(tokenizer: str) -> str:
    return {"bytes": "byte", "gpt2": "GPT-2 token"}.get(tokenizer, f"{tokenizer} token")
