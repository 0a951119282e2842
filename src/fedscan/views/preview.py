"""Tables, figures and the page from whatever is there: a look at an unfinished study."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments import whole
from fedscan.experiments.registry import EXPERIMENTS, STAGES
from fedscan.pipeline.stage import Job, Log


def preview(config: Mapping[str, Any], results: Path, output: Path, report: Log) -> None:
    """Write what can be made of incomplete results, and index.html, into a folder of their own.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of the results; only read.
        output: folder to write.
        report: the job's log.

    Raises:
        ValueError: if not one run is there.
    """
    for experiment in EXPERIMENTS:
        for rule, made in experiment.previews.items():
            inputs = {name: output / folder for name, folder in made.inputs.items()}
            job = _job(made.settings(config), inputs, results, output / made.folder, report)
            importlib.import_module(STAGES[rule].module).run(job)
        remade = {made.folder for made in experiment.previews.values()}
        for folder in experiment.results:
            if folder not in remade:
                _link(results / folder, output / folder)
    page = _job(whole.html_report(config), {}, output, output, report)
    importlib.import_module(STAGES["html_report"].module).run(page)


def _job(
    settings: Mapping[str, Any],
    inputs: Mapping[str, Path],
    results: Path,
    folder: Path,
    report: Log,
) -> Job:
    return Job(settings, inputs, results, folder, folder, report, lambda: None)


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
