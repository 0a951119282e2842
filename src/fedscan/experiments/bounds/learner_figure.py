"""Figure 5: how much of their teachers' predictive gap the learners recover."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


def learners_and_teachers(learners: pd.DataFrame, teachers: pd.DataFrame) -> Figure:
    """Draw Figure 5: gap recovered by learners, predictive gap of teachers.

    Args:
        learners: table ``learners`` with d_input.
        teachers: table ``teachers`` with d_input and d_state.

    Returns:
        Two panels.
    """
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rhos = sorted(learners["rho"].unique())
    gaps = [learners.loc[learners["rho"] == rho, "gap_recovered"].to_numpy(float) for rho in rhos]
    left.boxplot([gap[np.isfinite(gap)] for gap in gaps], showfliers=True)
    left.set_xticks(range(1, len(rhos) + 1), [f"{rho:g}" for rho in rhos])
    left.axhline(1, color="black", linewidth=0.6)
    left.set_ylabel("share of the gap recovered")
    uniform = np.log(teachers["d_input"].to_numpy(float))
    gap = 100 * (uniform - teachers["test_nll"].to_numpy(float)) / uniform
    places = [rhos.index(rho) if rho in rhos else -1 for rho in teachers["rho"]]
    for d, marker in zip(sorted(teachers["d_input"].unique()), "osD^v<>p", strict=False):
        mask = (teachers["d_input"] == d).to_numpy()
        right.plot(np.array(places)[mask], gap[mask], marker, label=f"D = {d}", alpha=0.8)
    right.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
    right.set_yscale("log")
    right.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
    right.yaxis.set_minor_formatter(NullFormatter())
    right.set_ylabel("teacher's gain, % of uniform NLL")
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.set_xlabel("ρ")
    return figure
