"""Plans: reasons from Snakemake's summary, and costs that add up by hand."""

from pathlib import Path

import pytest

from fedscan.config import files as config_files
from fedscan.experiments.comparison import cost as costing
from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.cost import cost
from fedscan.experiments.comparison.step_times import StepTimes, gradient_evaluations, measure
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.views.plan import Planned, parse_summary

SUMMARY = """output_file\tdate\trule\tlog-file(s)\tstatus\tplan
results/a/x=1/t.parquet\t-\tfirst\t-\tmissing\tupdate pending
results/a/x=1/u.parquet\t-\tfirst\t-\tmissing\tupdate pending
results/a/x=2/t.parquet\tMon\tfirst\tl\tparams changed\tupdate pending
results/a/x=3/t.parquet\tMon\tfirst\tl\tok\tno update
results/b/n.parquet\tMon\tlast\tl\tok\tupdate pending
"""


def test_jobs_and_reasons_come_from_the_summary():
    files = {
        "first": {f"a/x={i}": [f"a/x={i}/t.parquet"] for i in (1, 2, 3)},
        "last": {"b": ["b/n.parquet"]},
    }
    assert parse_summary(SUMMARY, files, Path("results")) == [
        Planned("first", 2, {"output is missing": 1, "its configuration or code changed": 1}),
        Planned("last", 1, {"an input is made anew": 1}),
    ]


def test_a_rule_that_is_not_listed_is_counted_by_folder():
    (found, _) = parse_summary(SUMMARY, {}, Path("results"))
    assert (found.rule, found.jobs) == ("first", 2)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_fedsam_alone_evaluates_two_gradients_a_step(name):
    assert gradient_evaluations(name) == (2 if name == "fedsam" else 1)


@pytest.fixture
def config():
    return config_files.load(["config/config.yaml"]).model_dump(mode="json")


def test_step_times_are_measured_with_the_code_that_trains(config):
    times = measure(config["training"], config["model"], 16, "mamba2", 1)
    assert times.step > 0
    assert times.evaluated_sequence > 0
    assert times.client_round >= 0
    assert times.parameters > 257 * config["model"]["d_model"]
    training = config["training"] | {"device": "cuda"}
    with pytest.raises(ValueError, match="no CUDA device"):
        measure(training, config["model"], 16, "mamba2", 1)


def test_costs_add_up(config, monkeypatch):
    times = StepTimes(step=0.5, evaluated_sequence=0.01, client_round=0.1, parameters=1000)
    monkeypatch.setattr(costing, "measure", lambda *_: times)
    monkeypatch.setattr(costing, "_start_seconds", lambda: 3.0)
    runs = [r for r in grid.runs(config["studies"]) if r.job.algorithm in ("fedavg", "fedsam")]
    job = runs[0].job
    runs = [r for r in runs if r.job._replace(algorithm=job.algorithm) == job]
    assert {r.job.algorithm for r in runs} == {"fedavg", "fedsam"} or len(runs) == 1
    monkeypatch.setattr(costing, "missing_runs", lambda *_: runs)
    found = cost(config, Path("results"), cores=4)
    rounds, validation = config["training"]["rounds"], 4 * 120 * (1 - 0.8)
    fixed = rounds * (job.clients * 0.1 + validation * 0.01)
    steps = rounds * job.clients * job.local_steps * 0.5
    seconds = sum(3.0 + fixed + steps * (2 if r.job.algorithm == "fedsam" else 1) for r in runs)
    assert found.device_hours == pytest.approx(seconds / 3600)
    assert found.wall_hours == pytest.approx(seconds / 3600 / 4)
    assert found.model_bytes == 4 * 1000 * len(runs)
    assert found.checkpoint_bytes == 4 * 1000 * (2 + 2 * job.clients) * 4
    without_models = config | {"workflow": config["workflow"] | {"keep_final_model": False}}
    assert cost(without_models, Path("results"), cores=4).model_bytes == 0
    rounds_too = config | {"workflow": config["workflow"] | {"keep_model_rounds": [0, 5]}}
    assert cost(rounds_too, Path("results"), cores=4).model_bytes == 3 * found.model_bytes
