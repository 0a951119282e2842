"""What training, heterogeneity and merging do to consensus over depth."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from scipy import stats

from fedscan.analysis import intervals
from fedscan.analysis.numbers import Number

MEASURES = ("lambda1", "participation", "mean_cosine")
BASELINE = "fedavg"
# What a federated run shares with the run it is paired with.
CONFIGURATION = ("backbone", "depth", "seed", "clients", "setting", "local_steps", "beta")


def extended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the completed rows after the larger number of layers, of runs or merges.

    Args:
        rows: table ``consensus_runs`` or ``consensus_merges``.
    """
    deepest = rows.groupby(["subject", "variant"])["applied"].transform("max")
    return rows[(rows["applied"] == deepest) & (rows["status"] == "completed")]


def run_numbers(rows: pd.DataFrame) -> Iterator[Number]:
    """Yield what training and heterogeneity do to lambda1.

    Args:
        rows: table ``consensus_runs``.

    Yields:
        Means, paired changes, and the rank correlation with perplexity.
    """
    for status in ("completed", "failed", "skipped"):
        subjects = rows[(rows["kind"] == "run") & (rows["status"] == status)]["subject"]
        yield Number("runs", "models", status, subjects.nunique())
    own = rows[(rows["applied"] == rows["depth"]) & (rows["status"] == "completed")]
    for variant, part in own.groupby("variant", sort=False):
        for kind, word in (("initial", "initial"), ("run", "trained")):
            found = part[part["kind"] == kind]
            found = _last_round(found) if kind == "run" else found
            if len(found):
                row = f"{variant} {word}, the model's own depth"
                yield _mean("runs", row, "lambda1", found["lambda1"])
    deep = extended(rows)
    for variant, part in deep.groupby("variant", sort=False):
        runs, initial = part[part["kind"] == "run"], part[part["kind"] == "initial"]
        last = _last_round(runs)
        for measure in MEASURES:
            if len(initial):
                yield _mean("runs", f"{variant} initial", measure, initial[measure])
            if len(last):
                yield _mean("runs", f"{variant} trained", measure, last[measure])
        yield from _of_betas(str(variant), last)
        yield from _from_initial(str(variant), last, initial)
        yield from _against_baseline(str(variant), last)
        yield from _with_perplexity(str(variant), last)


def _last_round(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each run's rows of its last round that was looked at."""
    keys = [*CONFIGURATION, "algorithm", "value"]
    return runs[runs["round"] == runs.groupby(keys, dropna=False)["round"].transform("max")]


def _mean(table: str, row: str, quantity: str, values: pd.Series, note: str = "") -> Number:
    found = intervals.mean(values.to_numpy(float))
    return Number(
        table, row, quantity, *found, note=f"{len(values)} models" + (f"; {note}" if note else "")
    )


def _of_betas(variant: str, runs: pd.DataFrame) -> Iterator[Number]:
    for beta, part in runs.groupby("beta"):
        yield _mean("runs", f"{variant} beta={beta:g}", "lambda1", part["lambda1"])
    betas = sorted(runs["beta"].unique())
    if len(betas) < 2:
        return
    keys = [*(k for k in CONFIGURATION if k != "beta"), "algorithm", "value"]
    wide = runs.pivot_table(index=keys, columns="beta", values="lambda1").dropna()
    change = wide[betas[-1]] - wide[betas[0]]
    row = f"{variant} beta={betas[-1]:g} against {betas[0]:g}"
    if len(change):
        yield _mean("runs", row, "lambda1_change", change, "paired by algorithm and configuration")


def _from_initial(variant: str, runs: pd.DataFrame, initial: pd.DataFrame) -> Iterator[Number]:
    keys = ["backbone", "depth", "seed"]
    joined = runs.merge(initial[[*keys, *MEASURES]], on=keys, suffixes=("", "_initial"))
    if len(joined):
        change = joined["lambda1"] - joined["lambda1_initial"]
        row = f"{variant} trained against initial"
        yield _mean("runs", row, "lambda1_change", change, "what training adds to random weights")


def _against_baseline(variant: str, runs: pd.DataFrame) -> Iterator[Number]:
    keys = list(CONFIGURATION)
    base = runs[runs["algorithm"] == BASELINE][[*keys, *MEASURES]]
    joined = runs.merge(base, on=keys, suffixes=("", "_base"))
    for algorithm, part in joined[joined["algorithm"] != BASELINE].groupby("algorithm"):
        change = part["lambda1"] - part["lambda1_base"]
        row = f"{variant} {algorithm} against {BASELINE}"
        yield _mean("runs", row, "lambda1_change", change, "paired by configuration and seed")


def _with_perplexity(variant: str, runs: pd.DataFrame) -> Iterator[Number]:
    runs = runs.dropna(subset=["val_ppl_last10", "lambda1"])
    constant = runs["val_ppl_last10"].nunique() < 2 or runs["lambda1"].nunique() < 2
    if len(runs) < 3 or constant:
        return
    ranks = [stats.rankdata(runs[name]) for name in ("lambda1", "val_ppl_last10")]
    groups = runs[list(CONFIGURATION)].astype(str).agg("/".join, axis=1).to_numpy()
    found = intervals.pearson(*ranks, groups)
    row = f"{variant} with last-10 perplexity"
    yield Number("runs", row, "spearman_lambda1", *found, note=f"{len(runs)} models")


def gate_effects(rows: pd.DataFrame, variants: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return what removing the gate does to lambda1, per model.

    Args:
        rows: table ``consensus_runs`` or ``consensus_merges``.
        variants: name -> section.

    Returns:
        Index subject; column ``gate_effect`` = lambda1 without gate - with it; empty if the two
        variants, alike in all else, are not both there.
    """
    deep = extended(rows)
    names = list(deep["variant"].unique())
    for whole in names:
        for removed in names:
            if variants[whole] | {"gate": 0.0} == variants[removed] | {"gate": 0.0} and (
                variants[whole]["gate"] == 1 and variants[removed]["gate"] == 0
            ):
                wide = deep.pivot_table(index="subject", columns="variant", values="lambda1")
                effect = (wide[removed] - wide[whole]).dropna()
                return effect.rename("gate_effect").to_frame()
    return pd.DataFrame({"gate_effect": []}, dtype=float)


def merge_numbers(rows: pd.DataFrame) -> Iterator[Number]:
    """Yield where merges lie among the models they are made of.

    Args:
        rows: table ``consensus_merges``.

    Yields:
        Means of lambda1, and how often a merge's is between its specialists'.
    """
    deep = extended(rows)
    merges = [kind for kind in deep["kind"].unique() if kind not in ("base", "specialist")]
    for (base, variant), part in deep.groupby(["base", "variant"], sort=False):
        experts = part[part["kind"] == "specialist"]
        for kind in ("base", "specialist", *merges):
            own = part[part["kind"] == kind]
            if len(own):
                yield _mean("merging", f"{base} {variant} {kind}", "lambda1", own["lambda1"])
        for kind in merges:
            inside = []
            for seed, own in part[part["kind"] == kind].groupby("seed"):
                among = experts[experts["seed"] == seed]["lambda1"]
                if len(among):
                    value = own["lambda1"].iloc[0]
                    inside.append(bool(among.min() <= value <= among.max()))
            if inside:
                row = f"{base} {variant} {kind}"
                note = (
                    f"of {len(inside)} seeds: lambda1 between its specialists' smallest and largest"
                )
                yield Number("merging", row, "between_specialists", sum(inside), note=note)
