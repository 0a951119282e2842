"""The run table: sizes, canonical spelling, speed of planning, and no torch."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedscan.config import files as config_files
from fedscan.experiments.comparison import grid
from fedscan.labels import axis_label, label, value_file, value_label


def studies(*files):
    return config_files.load(files).model_dump(mode="json")["studies"]


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        (0.0005, "0.0005"),
        (5e-4, "0.0005"),
        ("5E-04", "0.0005"),
        ("0.00050", "0.0005"),
        (5e-05, "5e-05"),
        (1, "1"),
        (1.0, "1"),
        ("0.10", "0.1"),
        (-0.0, "0"),
        ("mean_gradient", "mean_gradient"),
    ],
)
def test_one_number_has_one_label(spelling, text):
    assert label(spelling) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_labels_read_back_exactly(number):
    assert float(label(number)) == number
    assert label(label(number)) == label(number)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_no_label_for_what_has_no_place_in_a_path(value):
    with pytest.raises(ValueError, match=r"no label|not finite"):
        label(value)


def test_settings_that_look_like_numbers_stay_apart():
    assert axis_label("01") == "01"
    assert axis_label("1") == "1"


def test_the_papers_grid_is_complete():
    # 72 configurations x 37 values x 3 seeds (Appendix G.4).
    main = {"main": studies("config/config.yaml", "config/paper.yaml")["main"]}
    runs = grid.runs(main)
    assert len(runs) == 7992
    assert len({run.job._replace(algorithm="", seed=0) for run in runs}) == 72
    assert len({(run.job.algorithm, run.value) for run in runs}) == 37
    assert len(grid.jobs(runs)) == 72 * 9 * 3


def test_a_run_in_two_studies_runs_once():
    # FedProx with mu = 1e-3, K = 4, beta 0.7, depth 4, E 64 is in the main grid and the ablation.
    runs = grid.runs(studies("config/config.yaml", "config/paper.yaml"))
    shared = [run for run in runs if {"main", "client_count"} <= set(run.studies)]
    # nine algorithms, four settings, three seeds
    assert len(shared) == 9 * 4 * 3
    assert len({(run.job, run.value) for run in runs}) == len(runs)
    # backbones: K = 4, setting 1, six layouts; mamba2 shares what has the same value
    backbone = [run for run in runs if "backbone" in run.studies]
    assert len(backbone) == 9 * 6 * 3


def test_order_and_spelling_of_the_configuration_do_not_matter():
    one = studies("config/config.yaml")
    other = {k: dict(v) for k, v in one.items()}
    other["main"]["betas"] = [1.0, 0.0]
    other["main"]["algorithms"] = list(reversed(one["main"]["algorithms"]))
    assert grid.runs(one) == grid.runs(other)


def test_paths_are_hive_style_and_unique():
    jobs = grid.jobs(grid.runs(studies("config/config.yaml", "config/paper.yaml")))
    job = grid.Job("mamba2", 4, "1", 4, 64, 0.7, "fedprox", 0)
    path = "backbone=mamba2/clients=4/setting=1/depth=4/E=64/beta=0.7/algorithm=fedprox/seed=0"
    assert grid.job_path(job) == path
    assert path in jobs
    assert max(map(len, jobs)) < 200


def test_planning_needs_no_torch_and_little_time():
    script = (
        "import sys, time\n"
        "from fedscan.config import files as config_files\n"
        "from fedscan.experiments.comparison import grid\n"
        "config = config_files.load(['config/config.yaml', 'config/paper.yaml'])\n"
        "studies = config.model_dump(mode='json')['studies']\n"
        "start = time.process_time()\n"
        "runs = grid.runs(studies); jobs = grid.jobs(runs)\n"
        "print(time.process_time() - start, len(runs))\n"
        "loaded = {'torch', 'pandas', 'transformers'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, count = done.stdout.split()
    assert int(count) > 8000
    # Takes about 0.1 s; a quadratic algorithm would take minutes.
    assert float(seconds) < 5


def test_no_file_of_a_value_begins_with_a_dash():
    names = [value_file(value_label(h)) for h in ({}, {"mu": 0.001}, {"a": 1, "b": "two"})]
    assert names == ["none.safetensors", "mu=0.001.safetensors", "a=1,b=two.safetensors"]
