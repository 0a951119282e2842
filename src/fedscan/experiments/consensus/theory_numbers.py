"""The random instances in numbers: how many starts reach consensus, and how fast."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedscan.analysis import intervals
from fedscan.analysis.numbers import Number
from fedscan.experiments.consensus.theory_tables import STATEMENTS

PROVED = "without SiLU"
UNPROVED = "with SiLU: the paper says that its result carries over, and proves nothing"


def numbers(rows: pd.DataFrame) -> Iterator[Number]:
    """Yield the numbers of table 'theory'.

    Args:
        rows: table ``consensus_instances``.

    Yields:
        Per kind: shares, thresholds, rates; then the slack of each statement over all.
    """
    for (kernel, amount, silu), part in rows.groupby(["kernel", "anisotropy", "silu"], sort=False):
        row = f"{kernel} {amount:g}" if kernel == "definite" else str(kernel)
        row += ", SiLU" if silu else ""
        note = UNPROVED if silu else PROVED
        shares = (part["reached"] / part["starts"]).to_numpy(float)
        count = f"{part['reached'].sum()} of {part['starts'].sum()} starts; {note}"
        yield Number("theory", row, "share_reached", *intervals.mean(shares), note=count)
        yield Number("theory", row, "undecided", int(part["undecided"].sum()), note=note)
        for name in ("rate_measured", "rate_linear", "rate_certified"):
            values = part[name].dropna().to_numpy(float)
            if len(values):
                word = f"{len(values)} instances; {note}"
                yield Number("theory", row, name, *intervals.mean(values), note=word)
        if not silu:
            yield from _thresholds(row, part)
            yield from _radii(row, part)
    for name, text in STATEMENTS.items():
        values = rows[f"slack_{name}"].dropna()
        broken = int(rows[f"violations_{name}"].sum())
        smallest = float(values.min()) if len(values) else np.nan
        word = f"smallest slack of {text} over {len(values)} instances"
        yield Number("theory", "all", f"slack_{name}", smallest, note=word)
        yield Number("theory", "all", f"violations_{name}", broken, note=text)
    for name in ("theorem", "certificate"):
        count = int(rows[f"violations_{name}"].sum())
        text = {"theorem": "Theorem V.1, corrected threshold", "certificate": "Theorem IV.1"}[name]
        yield Number("theory", "all", f"violations_{name}", count, note=text)


def _thresholds(row: str, part: pd.DataFrame) -> Iterator[Number]:
    for name, note in (
        ("c_eff", "with the factor l - 1 that the proof needs"),
        ("c_eff_printed", "as printed: Theorem V.1 does not hold for it"),
    ):
        values = part[name].dropna().to_numpy(float)
        if len(values):
            yield Number("theory", row, name, *intervals.mean(values), note=note)
    for name in ("t_star_q", "t_star_a"):
        values = part[name].dropna().to_numpy(float)
        word = f"first token of the first start; {len(part) - len(values)} of {len(part)} have none"
        value = float(values.max()) if len(values) else np.nan
        yield Number("theory", row, f"largest_{name}", value, note=word)


def _radii(row: str, part: pd.DataFrame) -> Iterator[Number]:
    for name, word in (
        ("radius_certified", "of the first token's 1 - |z^a|, Theorem IV.1"),
        ("radius_simulated", "largest 1 - |z^a| tried from which all signs reach consensus"),
    ):
        values = part[name].dropna().to_numpy(float)
        if len(values):
            note = f"{word}; smallest of {len(values)} instances"
            yield Number("theory", row, name, float(values.min()), note=note)
