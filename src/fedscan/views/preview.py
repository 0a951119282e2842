"""Tables, figures and the page from whatever is there: a look at an unfinished study."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import practice
from fedscan.experiments.comparison import summary as compare
from fedscan.experiments.comparison.config import compared_settings
from fedscan.pipeline.runner import Log
from fedscan.report import build as html_report

OTHERS = ("bounds", "student_tables", "merging/tables")


def preview(config: Mapping[str, Any], results: Path, output: Path, report: Log) -> None:
    """Write compare/, practice/ and index.html into a folder of their own.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of the results; only read.
        output: folder to write.
        report: the job's log.

    Raises:
        ValueError: if not one run is there.
    """
    paper = compared_settings(config)
    sections = {name: config[name] for name in ("studies", "analysis", "training", "model")}
    compared = str(output / "compare")
    compare.run({**sections, "paper": paper}, str(results), compared, report)
    practice.run(sections, str(results), compared, str(output / "practice"), report)
    for name in OTHERS:
        _link(results / name, output / name)
    html_report.run(
        {"config": config, "paper": paper}, str(output), str(output / "index.html"), report
    )


def refuse_own_folder(results: Path, output: Path) -> None:
    """Refuse to write a preview over what it is made from.

    Args:
        results: folder of the results.
        output: folder to write.

    Raises:
        ValueError: if ``output`` is, lies in, or holds the folder of the results.
    """
    inner, outer = output.resolve(), results.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise ValueError(f"{output}: choose a folder outside of the results, {results}")


def _link(source: Path, place: Path) -> None:
    """Show a finished part of the results inside the preview, without copying it."""
    if place.is_symlink():
        place.unlink()
    if (source / "numbers.parquet").exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(source.resolve(), place)
