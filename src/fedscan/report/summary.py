"""The sections that open and close the page: what was run, headline numbers, reproduction."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from fedscan.analysis.style import NAMES
from fedscan.report.page import Block, Card, Section, number_text, table_view

# What a person can ask for, the target that makes it, and what it needs.
TARGETS = (
    ("one partition", "results/partition/setting=1/beta=1/clients=4/train.parquet", "tokens"),
    ("the comparison", "compare", "all training jobs"),
    ("what theory sees in practice", "practice", "all training jobs"),
    ("bounds against measurements", "bounds", "teachers, learners, evaluations, stacks"),
    ("federated learners", "student_tables", "teachers"),
    ("all checks", "check", "everything"),
    ("this page", "html_report", "everything"),
)


def what_was_run(described: Mapping[str, Any], runs: pd.DataFrame, missing: int) -> Section:
    """Return the section on configuration, data, models, seeds and failures.

    Args:
        described: facts for a reader, name -> text.
        runs: table ``all_runs``.
        missing: runs of the configuration that are not there.

    Returns:
        The section; failed runs are a table.
    """
    failed = runs[runs["status"] == "failed"]
    facts = [(name, str(value)) for name, value in described.items()]
    facts += [
        ("training runs", f"{len(runs)} there, {len(failed)} failed, {missing} missing"),
        ("seeds", ", ".join(map(str, sorted(runs["seed"].unique())))),
        ("model parameters", _span(runs["parameters"])),
        ("kernels, device", "; ".join(_distinct(runs, ["kernels", "device", "precision"]))),
    ]
    columns = ["algorithm", "value", "setting", "beta", "depth", "local_steps", "clients"]
    columns += ["backbone", "seed", "failed_round", "failure"]
    tables = []
    if len(failed):
        caption = (
            "Runs that ended non-finite. They are counted, never replaced, and never selected."
        )
        tables.append(table_view(failed[columns], "Failed runs", caption, unfolded=True))
    return Section("run", "What was run", facts=facts, tables=tables)


def headline(
    runs: pd.DataFrame, numbers: Mapping[str, pd.DataFrame], checks: pd.DataFrame | None
) -> Section:
    """Return the section with the headline numbers.

    Args:
        runs: table ``all_runs``.
        numbers: folder -> its table ``numbers``, of those that are there.
        checks: table ``checks``, if there.

    Returns:
        Cards; those that need a reader's attention are marked.
    """
    failed = int((runs["status"] == "failed").sum())
    cards = [
        Card(f"{len(runs) - failed} + {failed}", "completed + failed training runs", "", failed > 0)
    ]
    cards += _outcome_cards(numbers.get("compare"))
    cards += _practice_cards(numbers.get("practice"))
    for folder, table, title in (
        ("bounds", "table1", "bounds: checked values above their bound"),
        ("student_tables", "checks", "federated learners: values above their bound"),
    ):
        if folder in numbers:
            cards.append(_violations(numbers[folder], table, title))
    if checks is not None:
        bad = int((~checks["passed"].astype(bool)).sum())
        cards.append(Card(f"{bad} of {len(checks)}", "consistency checks failed", "", bad > 0))
    return Section("headline", "Headline numbers", cards=cards)


def provenance(
    configured: Mapping[str, Any], versions: Mapping[str, str], checks: pd.DataFrame | None
) -> Section:
    """Return the closing section: versions, commands, the effective configuration, checks.

    Args:
        configured: the whole configuration.
        versions: library -> version.
        checks: table ``checks``, if there.

    Returns:
        The section.
    """
    commands = pd.DataFrame(
        [(what, f"snakemake --cores all {target}", needs) for what, target, needs in TARGETS],
        columns=["part", "command", "made from"],
    )
    caption = (
        "Add --configfile as in the run that made this page. Nothing that is up to date runs again;"
        " --forcerun makes a part anew, and -n only shows what would run."
    )
    tables = [table_view(commands, "How to rerun each part", caption, folded=False)]
    if checks is not None:
        frame = checks[["check", "passed"]].groupby("check", sort=False)["passed"]
        counted = frame.agg(["size", "sum"]).reset_index()
        counted.columns = ["check", "subjects", "passed"]
        tables.append(table_view(counted, "Checks", "What rule check verified, and how often."))
    text = yaml.safe_dump(dict(configured), sort_keys=False, allow_unicode=True, width=100)
    return Section(
        "provenance",
        "Provenance and reruns",
        "Every Parquet file carries versions, configuration and code fingerprint in its metadata.",
        facts=sorted(versions.items()),
        tables=tables,
        blocks=[Block("The effective configuration", text)],
    )


def comparison_frame(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return the comparison for a reader: mean and deviation in one cell each.

    Args:
        comparison: table ``comparison``.

    Returns:
        Columns that vary or matter, best algorithm first within each configuration.
    """
    axes = ["study", "backbone", "clients", "setting", "depth", "local_steps", "beta"]
    shown = [name for name in axes if comparison[name].nunique() > 1 or name == "beta"]
    frame = comparison[shown].assign(algorithm=comparison["algorithm"].map(NAMES))
    for metric, title in (
        ("val_ppl_last10", "last-10 ppl"),
        ("val_ppl", "val ppl"),
        ("train_ppl", "train ppl"),
    ):
        frame[title] = comparison[f"{metric}_mean"].astype(float)
        frame[f"± {title}"] = comparison[f"{metric}_std"].astype(float)
    frame["vs FedAvg, %"] = comparison["change_percent"].astype(float)
    for name in ("failed_runs", "missing_runs"):
        if comparison[name].any():
            frame[name.replace("_", " ")] = comparison[name].astype(int)
    return frame.assign(value=comparison["value"])


def _practice_cards(numbers: pd.DataFrame | None) -> list[Card]:
    if numbers is None or numbers.empty:
        return []
    # In order of strength; rows of single heterogeneities follow their quantity's own.
    rows = numbers[numbers["quantity"] == numbers["quantity"].iloc[0]]
    rows = rows[~rows["row"].str.contains(" beta=", regex=False)]
    best = rows["value"].iloc[0]
    names = list(rows.loc[rows["value"] == best, "row"]) or [rows["row"].iloc[0]]
    shown = " and ".join(names if len(names) < 3 else [names[0], f"{len(names) - 1} more"])
    verb = "orders" if len(names) == 1 else "order"
    text = f"rank correlation {number_text(best)} with last-10 perplexity"
    return [Card(shown, f"{verb} the algorithms best", text)]


def _outcome_cards(numbers: pd.DataFrame | None) -> Sequence[Card]:
    if numbers is None:
        return []
    found = numbers.set_index(["table", "row", "quantity"])
    agreeing = found.loc[("table2", "agreement", "cases")]
    compared = found.loc[("table2", "agreement", "compared"), "value"]
    r = found.loc[("correlation", "all", "pearson_r")]
    interval = ""
    if not pd.isna(r["low"]):
        interval = f"95% interval {number_text(r['low'])} … {number_text(r['high'])}; "
    return [
        Card(
            f"{number_text(agreeing['value'])} of {number_text(compared)}",
            "changes as theory expects",
            f"paper: {number_text(agreeing['paper'])} of 16",
        ),
        Card(
            number_text(r["value"]) or "n/a",
            "Pearson's r, expectation and outcome",
            f"{interval}paper: {number_text(r['paper'])}",
        ),
    ]


def _violations(numbers: pd.DataFrame, table: str, title: str) -> Card:
    rows = numbers[numbers["table"] == table]
    if table == "checks":
        rows = rows[rows["row"] == "all"]
    total = rows.loc[rows["quantity"].isin(["evaluations", "all_checks"]), "value"].sum()
    violations = rows.loc[rows["quantity"] == "violations", "value"].sum()
    return Card(f"{number_text(violations)} of {number_text(total)}", title, "", violations > 0)


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _distinct(frame: pd.DataFrame, columns: list[str]) -> list[str]:
    return sorted({", ".join(map(str, row)) for row in frame[columns].drop_duplicates().to_numpy()})
