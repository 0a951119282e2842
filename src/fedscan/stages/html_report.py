"""Stage ``html_report``: everything that was made -> one page that opens without a network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan import __version__, grid
from fedscan.analysis.paper_settings import differences
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.report import summary
from fedscan.report.contents import Contents, contents
from fedscan.report.numbers_view import numbers_view
from fedscan.report.page import Page, Section, figure_view, render, table_view
from fedscan.stages.job import Log

TITLE = "Federated learning of selective state-space models"


def run(settings: Mapping[str, Any], results: str, page: str, report: Log) -> None:
    """Write the page from what is there; parts that are not there are left out and named.

    Args:
        settings: ``config``, the whole configuration, and ``paper``, its settings that are
            compared with the paper's.
        results: folder of all results.
        page: HTML file to write.
        report: the job's log.
    """
    folder = Path(results)
    runs = parquet.read_frame(folder / "compare/all_runs.parquet", "all_runs")
    comparison = parquet.read_frame(folder / "compare/comparison.parquet", "comparison")
    checks_file = folder / "check/checks.parquet"
    checks = parquet.read_frame(checks_file, "checks") if checks_file.exists() else None
    listed = contents()
    numbers = {
        entry.folder: parquet.read_frame(file, "numbers")
        for entry in listed
        if (file := folder / entry.folder / "numbers.parquet").exists()
    }
    described = _described(settings) | _duplicates(folder / "tokens/manifest.json")
    missing = len(grid.runs(settings["config"]["studies"])) - len(runs)
    sections = [
        summary.headline(runs, numbers, checks),
        summary.what_was_run(described, runs, missing),
        *(
            _section(entry, numbers, comparison, folder)
            for entry in listed
            if entry.folder in numbers
        ),
        summary.provenance(settings["config"], versions(), checks),
    ]
    absent = [entry.title for entry in listed if entry.folder not in numbers]
    report(f"{len(sections)} sections; not there: {', '.join(absent) or 'nothing'}")
    same = "other settings than" if described["differs from the paper"] else "as in"
    subtitle = f"{len(runs)} training runs on {described['text']}; {same} the paper"
    if absent:
        subtitle += f". Not made yet: {', '.join(absent)}"
    atomic.write_text(page, render(Page(TITLE, subtitle, __version__, sections)))


def _described(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that a reader wants first."""
    config, found = settings["config"], settings["paper"]
    training, model, synthetic = config["training"], config["model"], config["synthetic"]
    return {
        "text": f"{found['text']} text, tokenizer {found['tokenizer']}",
        "data": f"{found['sequence_length']} tokens a sequence, at most"
        f" {found['sequences_per_client']} sequences a client, seed {config['data']['seed']}",
        "model": f"d_model {model['d_model']}, d_state {model['d_state']},"
        f" headdim {model['headdim']}, vocabulary {model['vocab_size']}",
        "training": f"{training['rounds']} rounds, batch {training['batch_size']},"
        f" AdamW {training['lr']:g}, clip {training['clip_norm']:g}",
        "studies": ", ".join(config["studies"]),
        "synthetic study": f"D {synthetic['d_input']}, N {synthetic['d_state']},"
        f" ρ {synthetic['rhos']}",
        "differs from the paper": differences(found),
    }


def _duplicates(manifest: Path) -> dict[str, str]:
    """Return what is known of documents of equal text; nothing, if the tokens are not there."""
    if not manifest.exists():
        return {}
    found = json.loads(manifest.read_text(encoding="utf-8")).get("duplicates")
    if found is None:  # made by an earlier version
        return {}
    within, across = sum(found["within"].values()), sum(found["across"].values())
    done = {"drop": "dropped", "keep": "kept: training and validation text overlap"}
    what = done[found["rule"]] if within + across else "none to drop or keep"
    return {"copies of documents": f"{within} within a domain, {across} across domains; {what}"}


def _section(
    entry: Contents, numbers: Mapping[str, pd.DataFrame], comparison: pd.DataFrame, folder: Path
) -> Section:
    figures = []
    for stem, caption in entry.figures.items():
        file = folder / entry.folder / f"{stem}.png"
        if file.exists():
            figures.append(
                figure_view(file.read_bytes(), caption, f"results/{entry.folder}/{file.name}")
            )
    tables = []
    if entry.anchor == "comparison":
        caption = "Mean and standard deviation over seeds at the selected value."
        frame = summary.comparison_frame(comparison)
        tables.append(table_view(frame, "All configurations", caption, unfolded=True))
    found = numbers[entry.folder]
    for name, (title, caption) in entry.tables.items():
        tables += numbers_view(found[found["table"] == name], title, caption)
    return Section(entry.anchor, entry.title, entry.intro, figures=figures, tables=tables)
