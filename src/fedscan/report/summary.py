"""The sections that open and close the page: headline numbers, what was run, reproduction."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from fedscan.report.page import Block, Card, Section, TableView, table_view

# After the experiments' own: what a person can ask for, the target that makes it, what it needs.
RERUNS = (("all checks", "check", "everything"), ("this page", "html_report", "everything"))


def headline(cards: Sequence[Card], checks: pd.DataFrame | None) -> Section:
    """Return the section with the headline numbers.

    Args:
        cards: the experiments'.
        checks: table ``checks``, if there.

    Returns:
        Cards; those that need a reader's attention are marked.
    """
    shown = list(cards)
    if checks is not None:
        bad = int((~checks["passed"].astype(bool)).sum())
        shown.append(Card(f"{bad} of {len(checks)}", "consistency checks failed", "", bad > 0))
    return Section("headline", "Headline numbers", cards=shown)


def what_was_run(facts: Sequence[tuple[str, str]], tables: Sequence[TableView]) -> Section:
    """Return the section on configuration, data, models, seeds and failures.

    Args:
        facts: for a reader, name and text.
        tables: what did not end well.

    Returns:
        The section.
    """
    return Section("run", "What was run", facts=facts, tables=tables)


def provenance(
    configured: Mapping[str, Any],
    versions: Mapping[str, str],
    checks: pd.DataFrame | None,
    reruns: Sequence[Sequence[str]],
) -> Section:
    """Return the closing section: versions, commands, the effective configuration, checks.

    Args:
        configured: the whole configuration.
        versions: library -> version.
        checks: table ``checks``, if there.
        reruns: (part, target, what it is made from).

    Returns:
        The section.
    """
    commands = pd.DataFrame(
        [(what, f"snakemake --cores all {target}", needs) for what, target, needs in reruns],
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
