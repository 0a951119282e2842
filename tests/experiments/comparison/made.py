"""A finished comparison in miniature: tokens, partition and training jobs as in results/."""

from fedscan.experiments.comparison import grid, practice, summary, training
from fedscan.experiments.comparison.paper import PAPER_SETTINGS
from fedscan.experiments.corpus import partition, tokens
from fedscan.experiments.corpus.grid import partition_path
from tests import jobs
from tests.experiments import tiny
from tests.federated.conformance import SMALL

ALGORITHMS = ["fedavg", "fedprox", "fedadam"]
STUDIES = {
    "main": {
        "backbones": ["mamba2"], "clients": [2], "settings": ["1"], "depths": [1],
        "local_steps": [3], "betas": [0.7], "seeds": [0], "algorithms": ALGORITHMS,
        "hyperparameters": {n: {k: [v] for k, v in SMALL[n].items()} for n in ALGORITHMS},
    }
}  # fmt: skip
ANALYSIS = {
    "grid": "main", "client_count": None, "backbone": None,
    "expectation_between": "heterogeneous", "similar_percent": 2.0,
}  # fmt: skip
SECTIONS = {
    "studies": STUDIES,
    "analysis": ANALYSIS,
    "training": tiny.TRAINING,
    "model": tiny.MODEL,
    "paper": PAPER_SETTINGS | {"text": "synthetic", "tokenizer": "bytes"},
}


def settings_of(run):
    return tiny.settings() | {"job": run.job._asdict(), "values": [dict(run.hyperparameters)]}


def prepare(results):
    """Train every run of the study below ``results``."""
    jobs.run(tokens, tiny.TOKENS, results / "tokens")
    held = results / "partition" / partition_path("1", 0.7, 2)
    jobs.run(partition, tiny.PARTITION, held, tokens=results / "tokens")
    for run in grid.runs(STUDIES):
        folder = results / "federated" / grid.job_path(run.job)
        jobs.run(training, settings_of(run), folder, partition=held)


def compare(results, report=jobs.silent):
    jobs.run(summary, SECTIONS, results / "compare", results=results, report=report)


def practise(results):
    folder = results / "compare"
    jobs.run(practice, SECTIONS, results / "practice", results=results, compared=folder)
