"""Tables, figures and the page from whatever is there: a look at an unfinished study."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.config_analysis import compared_settings
from fedscan.stages import compare, html_report, practice
from fedscan.stages.job import Log

OTHERS = ("bounds", "student_tables", "merging/tables")


def preview(config: Mapping[str, Any], results: Path, output: Path, report: Log) -> None:
    """Write compare/, practice/ and index.html into a folder of their own.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of the results; only read.
        output: folder to write.
        report: the job's log.

    Raises:
        ValueError: if not one run is there, or ``output`` is the folder of the results.
    """
    if output.resolve() == results.resolve():
        raise ValueError(f"{output}: choose another folder than that of the results")
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


def _link(source: Path, place: Path) -> None:
    """Show a finished part of the results inside the preview, without copying it."""
    if place.is_symlink():
        place.unlink()
    if (source / "numbers.parquet").exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(source.resolve(), place)
