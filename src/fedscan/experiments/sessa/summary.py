"""Stage ``sessa``: all runs, diagnostics and claims -> numbers, figures, a summary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.sessa import tables, theory_numbers
from fedscan.experiments.sessa.figures import figures
from fedscan.experiments.sessa.inputs import read_vocabulary
from fedscan.experiments.sessa.numbers import Found, numbers
from fedscan.experiments.sessa.paper import TABLES, paper_numbers
from fedscan.experiments.sessa.text import sessa_text
from fedscan.experiments.sessa.theory_tables import CLAIMS, RETRIEVAL
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.paper import published
from fedscan.pipeline.stage import Job

# Folder of the paper's CSV file.
PUBLISHED = "fedscan.experiments.sessa.published"


def run(job: Job) -> None:
    """Write the numbers beside the published ones, the summary and the figures.

    Args:
        job: settings: ``mixers``, ``tasks`` (name -> section), ``diagnosed`` (tasks) and the
            sections ``models``,
            ``training``, ``federated`` (or null) and ``theory``. Its folder receives numbers
            (Parquet, CSV, text), summary.txt and the figures.
    """
    folder = job.folder
    found = _found(job)
    ours = [*numbers(found), *theory_numbers.numbers(found.claims, found.retrieval)]
    table = numbers_table(ours, paper_numbers(published(PUBLISHED, TABLES)))
    write_numbers(table, folder, {"settings": job.settings, "versions": versions()})
    text = sessa_text(found)
    atomic.write_text(folder / "summary.txt", text)
    job.report(text)
    for name, draw in figures(found).items():
        save_figure(draw, folder / name)


def _found(job: Job) -> Found:
    settings, root = job.settings, job.results / "sessa"
    tasks, mixers, federated = settings["tasks"], settings["mixers"], settings["federated"]
    pairs, diagnosed = (
        {
            f"task={task}/mixer={mixer}": {"task": task, "mixer": mixer}
            for task in names
            for mixer in mixers
        }
        for names in (tasks, settings["diagnosed"])
    )
    known = {task: read_vocabulary(root / f"data/task={task}") for task in tasks}
    return Found(
        *(parquet.collect(pairs, root / "training", one) for one in tables.TRAINING_TABLES),
        *(
            parquet.collect(diagnosed, root / "diagnostics", one)
            for one in (tables.JACOBIANS, tables.DECAY, tables.REGIME, tables.DIAGNOSED)
        ),
        *_federated(root / "federated", federated),
        claims=parquet.read_frame(root / "theory/sessa_claims.parquet", CLAIMS),
        retrieval=parquet.read_frame(root / "theory/sessa_retrieval.parquet", RETRIEVAL),
        baselines={task: rules for task, (_, rules) in known.items()},
        tokenizers={task: vocabulary.name for task, (vocabulary, _) in known.items()},
        gains=settings["theory"]["gains"],
    )


def _federated(root: Path, section: Any) -> Sequence[pd.DataFrame | None]:
    if section is None:
        return None, None
    jobs = {
        f"task={task}/mixer={mixer}/algorithm={algorithm}": {
            "task": task,
            "mixer": mixer,
            "algorithm": algorithm,
        }
        for task in section["tasks"]
        for mixer in section["mixers"]
        for algorithm in section["algorithms"]
    }
    return tuple(
        parquet.collect(jobs, root, one) for one in (tables.FEDERATED_RUNS, tables.FEDERATED_ROUNDS)
    )
