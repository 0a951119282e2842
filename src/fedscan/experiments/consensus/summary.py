"""Stage ``consensus``: all models, runs, merges and instances -> numbers, figures, a summary."""

from pathlib import Path

from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.consensus.figures import figures
from fedscan.experiments.consensus.numbers import Found, Model, numbers
from fedscan.experiments.consensus.paper import TABLES, paper_numbers, published_numbers
from fedscan.experiments.consensus.run_tables import MERGES, RUNS
from fedscan.experiments.consensus.tables import CURVES, LAYERS, MINIMA, MODEL, WINDOWS
from fedscan.experiments.consensus.text import consensus_text
from fedscan.experiments.consensus.theory_tables import INSTANCES
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.paper import published
from fedscan.pipeline.stage import Job

# Folder of the paper's CSV file.
PUBLISHED = "fedscan.experiments.consensus.published"


def run(job: Job) -> None:
    """Write the numbers beside the published ones, the summary and the figures.

    Args:
        job: settings: ``models``, ``variants`` (name -> section), ``source``, ``runs`` and
            ``merging`` (sections or null). Its folder receives numbers (Parquet, CSV, text),
            summary.txt and the figures.
    """
    settings, folder = job.settings, job.folder
    found = _found(job)
    said = published_numbers(published(PUBLISHED, TABLES)["consensus"])
    shown = [name for name, model in found.models.items() if model.facts["paper"]]
    paper = paper_numbers(said, shown, found.variants) if shown else {}
    table = numbers_table(list(numbers(found, said)), paper)
    provenance = {"settings": settings, "versions": versions()}
    write_numbers(table, folder, provenance)
    text = consensus_text(found)
    atomic.write_text(folder / "summary.txt", text)
    job.report(text)
    for name, draw in figures(found, said).items():
        save_figure(draw, folder / name)


def _found(job: Job) -> Found:
    settings, root = job.settings, job.results / "consensus"
    runs, merging = settings["runs"], settings["merging"]
    return Found(
        models={name: model_tables(root / f"models/model={name}") for name in settings["models"]},
        variants=settings["variants"],
        runs=None
        if runs is None
        else parquet.read_frame(root / f"runs/study={runs['study']}/consensus_runs.parquet", RUNS),
        merges=None
        if merging is None
        else parquet.read_frame(root / "merging/consensus_merges.parquet", MERGES),
        instances=parquet.read_frame(root / "theory/consensus_instances.parquet", INSTANCES),
        source=settings["source"],
    )


def model_tables(folder: Path) -> Model:
    """Read the tables of one model.

    Args:
        folder: where stage ``consensus_model`` wrote them.

    Returns:
        The tables.
    """
    (facts,) = parquet.read(folder / "consensus_model.parquet", MODEL).to_pylist()
    frames = (
        parquet.read_frame(folder / f"{table.name}.parquet", table)
        for table in (CURVES, WINDOWS, MINIMA, LAYERS)
    )
    return Model(facts, *frames)
