"""Merging in the workflow: what reruns after a change, and what a run leaves."""

import os
import time

import pandas as pd
import pytest

SWEEP = {"merges": 1, "merging": 1}
EVALUATIONS = {"specialist_accuracy": 1} | SWEEP
TRAINING = {"specialists": 2} | EVALUATIONS


def add_scale(merging):
    merging["operators"]["task_arithmetic"]["scales"] = [0.5, 0.7, 1.0]


def add_density(merging):
    merging["operators"]["ties"]["densities"] = [0.2, 0.5]


def add_mu(merging):
    merging["fine_tuning"]["mus"] = [0, 0.01]


def change_lr(merging):
    merging["fine_tuning"]["lr"] = 0.02


def evaluate_more(merging):
    merging["evaluation_cap"] = 20


def train_more(merging):
    merging["train_cap"] = 30


def add_seed(merging):
    merging["seeds"] = [0, 1]


def gradient_examples(merging):
    merging["gradient_examples"] = 8


def unused_source(merging):
    merging["huggingface"]["folder"] = "somewhere"


def paper_checkpoint(merging):
    merging["bases"]["embedded"]["paper_checkpoint"] = "Mamba2-370M"


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        (add_scale, SWEEP),
        (add_density, SWEEP),
        (gradient_examples, SWEEP),
        (add_mu, TRAINING),
        (change_lr, TRAINING),
        (evaluate_more, {"task_data": 2} | EVALUATIONS),
        (train_more, {"task_data": 2} | TRAINING),
        (add_seed, {"task_data": 2} | TRAINING),
        (unused_source, {}),
        (paper_checkpoint, {"merging": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_reruns_after_a_change(copy, change, jobs):
    change(copy.config["merging"])
    copy.save()
    assert copy.planned("--", "merging") == jobs


def test_a_changed_prompt_reruns_its_task(copy):
    copy.edit("src/fedscan/data/tasks/tasks.json", "Question: {text}", "Query: {text}")
    planned = copy.planned("--", "merging")
    assert planned == {"task_data": 2, "specialists": 1} | EVALUATIONS


def test_another_scale_evaluates_only_the_new_merge(copy):
    add_scale(copy.config["merging"])
    copy.save()
    copy.run("merging")
    log = (copy.folder / "results/logs/merging/merges/base=embedded/seed=0.log").read_text()
    lines = [line for line in log.splitlines() if "operator=" in line or "epoch=1,mu=0:" in line]
    fresh = [line for line in lines if "already in the tables" not in line]
    assert len(lines) == 6
    assert len(fresh) == 1
    assert "operator=task_arithmetic,scale=0.7" in fresh[0]


@pytest.mark.parametrize(
    ("target", "source", "change"),
    [
        ("merges", "specialists/**/specialists.parquet", add_scale),
        ("specialist_accuracy", "specialists/**/specialists.parquet", add_mu),
        ("specialists", "tasks/**/examples.parquet", add_mu),
    ],
)
def test_inputs_from_the_future_lose_nothing(copy, target, source, change):
    """Every rule that adds to its tables refuses them before Snakemake can delete kept rows."""
    change(copy.config["merging"])
    copy.save()
    ahead = time.time() + 7 * 24 * 3600
    inputs = list((copy.folder / "results/merging").glob(source))
    for file in inputs:
        os.utime(file, (ahead, ahead))
    before = copy.results()
    wanted = {
        "merges": "merging/merges/base=embedded/seed=0/merges",
        "specialist_accuracy": "merging/accuracy/base=embedded/specialist_accuracy",
        "specialists": "merging/specialists/base=embedded/task=trec/seed=0/specialists",
    }[target]
    allowed = ("--allowed-rules", target)
    done = copy.run("--forcerun", target, *allowed, "--", f"results/{wanted}.parquet", check=False)
    assert done.returncode != 0
    assert "is dated in the future: a clock is wrong" in done.stderr
    assert copy.results() == before


def test_a_run_leaves_tables_figures_and_a_summary(finished):
    folder = finished.folder / "results/merging/tables"
    merges = pd.read_parquet(folder / "all_merges.parquet")
    assert sorted(set(merges["operator"])) == ["average", "task_arithmetic", "ties"]
    assert set(merges["evaluated_on"]) == {"trec", "imdb"}
    assert "specialists, own task, epoch 1" in (folder / "summary.txt").read_text()
    for name in ("scales", "tasks", "displacements"):
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    base = pd.read_parquet(finished.folder / "results/merging/bases/base=embedded/base.parquet")
    runs = pd.read_parquet(finished.folder / "results/compare/all_runs.parquet")
    assert base["val_ppl_last10"].item() == runs["val_ppl_last10"].min()
