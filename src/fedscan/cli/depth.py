"""A model of one's own, iterated over depth, without the workflow."""

import importlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.analysis.aligned_text import numbers_text
from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.comparison import grid
from fedscan.experiments.consensus import plan
from fedscan.experiments.registry import STAGES
from fedscan.io import atomic
from fedscan.io.provenance import code_fingerprint
from fedscan.pipeline.preemption import stop_if_asked
from fedscan.pipeline.runner import on_device
from fedscan.pipeline.stage import Job, Log

NAME = "model"
RULE = "consensus_model"


def chosen(
    config: Mapping[str, Any],
    checkpoint: str,
    variants: Sequence[str],
    sizes: Mapping[str, int | None],
    vocabulary: int | None,
) -> dict[str, Any]:
    """Return the configuration with one model, some variants and other sizes.

    Args:
        config: the whole configuration.
        checkpoint: folder, hub id or model file.
        variants: names from ``consensus.variants``; none: all.
        sizes: ``tokens``, ``draws``, ``depth`` and ``seed``; None: the configuration's.
        vocabulary: ids are drawn below it; None: the checkpoint's.

    Returns:
        A configuration.

    Raises:
        ValueError: if there is no such variant.
    """
    known = plan.variants(config)
    for name in variants:
        if name not in known:
            raise ValueError(f"--variant {name}: no such variant; there are {', '.join(known)}")
    model = {"checkpoint": checkpoint, "vocabulary": vocabulary, "paper": False, "shape": None}
    given = {name: value for name, value in sizes.items() if value is not None}
    section = {
        **config["consensus"],
        **given,
        "models": {NAME: model},
        "variants": {name: known[name] for name in variants or known},
        "source": "uniform",
    }
    return {**config, "consensus": section}


def iterate(config: Mapping[str, Any], folder: Path, report: Log) -> str:
    """Iterate the model, and write tables, numbers and figures.

    Args:
        config: result of ``chosen``.
        folder: receives everything.
        report: the log.

    Returns:
        A summary.
    """
    stage = STAGES[RULE]
    choices = grid.mixer_choices(config["studies"])
    code = code_fingerprint(stage.module, choices=choices)
    settings = {**plan.consensus_model(config, NAME), "code": code}
    with on_device(stage.device, config, report):
        scratch = folder / "unfinished"
        work = Job(settings, {}, folder, folder, scratch, report, stop_if_asked)
        importlib.import_module(stage.module).run(work)
        shutil.rmtree(scratch, ignore_errors=True)
    return _summary(config, folder)


def _summary(config: Mapping[str, Any], folder: Path) -> str:
    # Imported here: figures need pandas and matplotlib, the iteration neither.
    from fedscan.experiments.consensus.figures import model_figures
    from fedscan.experiments.consensus.numbers import Found, numbers
    from fedscan.experiments.consensus.summary import model_tables
    from fedscan.experiments.consensus.text import consensus_text
    from fedscan.pipeline.figures import save_figure

    models = {NAME: model_tables(folder)}
    variants = config["consensus"]["variants"]
    found = Found(models, variants, None, None, None, "uniform")
    table = numbers_table(list(numbers(found, [])), {})
    atomic.write_text(folder / "numbers.txt", numbers_text(table))
    text = consensus_text(found)
    atomic.write_text(folder / "summary.txt", text)
    for name, draw in model_figures(found, []).items():
        save_figure(draw, folder / name)
    return text
