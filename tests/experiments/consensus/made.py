"""Models over depth in miniature."""

from pathlib import Path

import pandas as pd

from fedscan.experiments.consensus import merges, models, runs, summary, theory_study
from fedscan.experiments.consensus.config import Variant
from tests import jobs
from tests.jobs import silent

SHAPE = {
    "d_model": 16, "depth": 2, "d_state": 4, "d_conv": 4, "expand": 2, "headdim": 8, "ngroups": 1,
    "vocab_size": 40, "pad_vocab_size_multiple": 8,
}  # fmt: skip
CODE = {"rerun_on_code_change": True, "code": "0123456789abcdef"}
MACHINE = {
    "seed": 0, "source": "uniform", "precision": "float32", "device": "cpu", "threads": 1,
    "draws_per_batch": 2,
}  # fmt: skip
RANDOM = {"law": "mamba_ssm", "per": "layer", "mean_cosine": 0.4, "d_state": 6}


def variant(**keys):
    return Variant(**keys).model_dump(mode="json")


VARIANTS = {
    "gate": variant(),
    "no_gate": variant(gate=0),
    "repeat": variant(weights="repeat", layers="all", gate=0),
    "random": variant(system="analysed", weights="redraw", gate=0, update="sphere", tau=0.1),
    "random_no_silu": variant(
        system="analysed", weights="redraw", gate=0, update="sphere", tau=0.1, silu=False
    ),
}
SIZES = {"tokens": 6, "draws": 3, "depth": 12}


def model(checkpoint="random", vocabulary=None, paper=True):
    shape = SHAPE if checkpoint == "random" else None
    return {"checkpoint": checkpoint, "vocabulary": vocabulary, "paper": paper, "shape": shape}


def model_settings(**changes):
    return {
        "name": "tiny", "model": model(), "variants": VARIANTS, "random": RANDOM, "text": None,
        **SIZES, **MACHINE, **CODE,
    } | changes  # fmt: skip


def iterate(results, report=silent, **changes):
    """Run the stage as the rule does; returns its folder."""
    folder = Path(results, "consensus/models/model=tiny")
    scratch = Path(results, "checkpoints/model")
    settings = model_settings(**changes)
    jobs.run(models, settings, folder, results=results, scratch=scratch, report=report)
    return folder


def tables(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.parquet"))}


def curves(folder):
    return pd.read_parquet(Path(folder, "consensus_curves.parquet"))


THEORY = {
    "kernels": ["isotropic", "definite", "alternating", "indefinite"], "anisotropies": [0.3],
    "n": 3, "m": 3, "tokens": 2, "instances": 1, "starts": 3, "points": 4, "horizon": 12.0,
    "step": 0.1,
}  # fmt: skip


def study(results, report=silent, **changes):
    folder, scratch = Path(results, "consensus/theory"), Path(results, "checkpoints/theory")
    settings = {"seed": 0, **THEORY, **CODE} | changes
    jobs.run(theory_study, settings, folder, results=results, scratch=scratch, report=report)
    return folder / "consensus_instances.parquet"


ITERATED = {"variants": {k: VARIANTS[k] for k in ("gate", "no_gate")}, **SIZES, **MACHINE, **CODE}


def iterate_runs(results, listed, shape, report=silent, **changes):
    folder, scratch = Path(results, "consensus/runs/study=main"), Path(results, "checkpoints/runs")
    settings = {"jobs": listed, "model": shape, "rounds": ["last"], **ITERATED} | changes
    jobs.run(runs, settings, folder, results=results, scratch=scratch, report=report)
    return folder / "consensus_runs.parquet"


def iterate_merges(results, report=silent, **changes):
    folder, scratch = Path(results, "consensus/merging"), Path(results, "checkpoints/merges")
    settings = {
        "bases": ["tiny"], "seeds": [0], "tasks": ["trec", "imdb"], "epoch": 3,
        "merges": ["average", "best_task_arithmetic", "best_ties"], "text": None, **ITERATED,
    } | changes  # fmt: skip
    jobs.run(merges, settings, folder, results=results, scratch=scratch, report=report)
    return folder / "consensus_merges.parquet"


def summarise(results, **changes):
    folder = Path(results, "consensus/tables")
    settings = {
        "models": ["tiny"], "variants": VARIANTS, **SIZES, "source": "uniform", "random": RANDOM,
        "runs": {"study": "main"}, "merging": {}, "text": {}, "published": "x",
    } | changes  # fmt: skip
    jobs.run(summary, settings, folder, results=results)
    return folder
