"""Plan, status and preview on a finished study and on damaged and unfinished ones."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.experiments import whole


def fedscan(project, *arguments, check=True, environment=os.environ):
    done = subprocess.run(
        [sys.executable, "-m", "fedscan.cli", *arguments],
        cwd=project.folder,
        env=environment | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout if check else done


def loaded(project):
    from fedscan.config import files as config_files

    file = project.folder / "config/config.yaml"
    return config_files.load([file]).model_dump(mode="json")


def test_every_expected_file_is_there_and_no_rule_is_forgotten(finished):
    files = whole.files(loaded(finished))
    made = [file for jobs in files.values() for group in jobs.values() for file in group]
    missing = [file for file in made if not (finished.folder / "results" / file).exists()]
    assert missing == []
    text = finished.run("--summary", "--nolock").stdout
    rules = {line.split("\t")[2] for line in text.splitlines()[1:]}
    # The small project trains no mixer federatedly.
    assert rules == {rule for rule, jobs in files.items() if jobs}


def test_a_finished_study_has_nothing_to_do(finished):
    assert "Nothing to do" in fedscan(finished, "plan")
    text = fedscan(finished, "status")
    rows = re.findall(r"^│ (\w+) +│ (\d+) +│ (\d+) +│", text, flags=re.MULTILINE)
    assert {rule: done for rule, done, total in rows} == {r: total for r, _, total in rows}
    unmeasured = re.findall(r"^│ (\w+) +│ \d+ +│ \d+ +│ +- │", text, flags=re.MULTILINE)
    assert unmeasured == []
    assert "0 failed, 0 of another configuration, 0 missing" in text
    assert "training time left: 0:00:00" in text
    assert "last error" not in text


def one_job(project, algorithm):
    return next((project.folder / "results/federated").rglob(f"algorithm={algorithm}/seed=0"))


def test_plan_names_what_runs_why_and_what_it_costs(copy):
    shutil.rmtree(one_job(copy, "fedprox"))
    copy.config["studies"]["main"]["hyperparameters"]["fedprox"]["mu"] = [0.001, 0.01]
    copy.save()
    text = fedscan(copy, "plan")
    assert re.search(r"federated +│ 1 .*output is missing \(1\)", text)
    assert re.search(r"check +│ 1 ", text)
    assert "2 training runs are to be done" in text
    assert re.search(r"mamba2, depth 1 +│ [\d.]+ ms", text)
    assert "CPU hours" in text
    assert "of tables" in text
    quick = fedscan(copy, "plan", "--no-measure")
    assert "2 training runs" in quick
    assert "CPU hours" not in quick


def test_plan_says_when_the_device_is_not_there(copy):
    copy.config["training"]["device"] = "cuda"
    copy.save()
    done = fedscan(copy, "plan", check=False)
    assert done.returncode == 1
    assert "cuda and this machine has no" in done.stderr
    assert "training runs are to be done" in fedscan(copy, "plan", "--no-measure")


def test_status_sees_running_interrupted_failed_and_changed(copy):
    job = one_job(copy, "fedprox")
    path = job.relative_to(copy.folder / "results/federated")
    shutil.rmtree(job)
    checkpoint = copy.folder / "results/checkpoints/federated" / path / "mu=0.001.safetensors"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"")
    log = copy.folder / "results/logs/federated" / f"{path}.log"
    log.write_text("12:00:00 round 1/2: train ppl 9.00, val ppl 8.00, ETA 0:00:05\n")
    text = fedscan(copy, "status")
    assert "1 missing" in text
    assert "interrupted, the next start continues" in text
    assert "round 1/2" in text
    assert "training time left: 0:00:00" not in text
    (copy.folder / ".snakemake/locks").mkdir(exist_ok=True)
    (copy.folder / ".snakemake/locks/0.input.lock").write_text("")
    log.write_text("Traceback (most recent call last):\n  File x\nValueError: all is lost\n")
    text = fedscan(copy, "status")
    assert "running: " in text
    assert "ValueError: all is lost" in text
    copy.config["training"]["lr"] = 0.5
    copy.save()
    assert "of another configuration" in fedscan(copy, "status")
    assert " 0 of another configuration" not in fedscan(copy, "status")


def test_a_preview_shows_what_is_there_and_names_what_is_not(copy):
    shutil.rmtree(one_job(copy, "fedprox"))
    shutil.rmtree(copy.folder / "results/bounds")
    before = {p: p.stat().st_mtime_ns for p in (copy.folder / "results").rglob("*.parquet")}
    fedscan(copy, "preview", "-o", "early")
    after = {p: p.stat().st_mtime_ns for p in (copy.folder / "results").rglob("*.parquet")}
    assert before == after
    table = pd.read_parquet(copy.folder / "early/compare/comparison.parquet")
    row = table[(table["study"] == "main") & (table["algorithm"] == "fedprox")].iloc[0]
    assert (row["value"], row["missing_runs"]) == ("-", 1)
    html = (copy.folder / "early/index.html").read_text()
    assert "1 missing" in html
    assert "Not made yet: Bounds against measurements" in html
    assert "Not made yet: One-shot model merging" not in html
    assert (copy.folder / "early/merging/tables/numbers.parquet").exists()


def test_a_preview_without_runs_or_into_the_results_is_refused(copy):
    for folder in ("results", "results/compare", "."):
        done = fedscan(copy, "preview", "-o", folder, check=False)
        assert done.returncode == 1
        assert "choose a folder outside of the results" in done.stderr
        assert not (copy.folder / folder / "preview.log").exists()
    shutil.rmtree(copy.folder / "results/federated")
    done = fedscan(copy, "preview", "-o", "early", check=False)
    assert done.returncode == 1
    assert "no job of this configuration" in done.stderr


def test_results_of_another_configuration_are_not_mixed_in(copy):
    copy.config["training"]["lr"] = 0.5
    copy.save()
    done = fedscan(copy, "preview", "-o", "early", check=False)
    assert done.returncode == 1
    assert "no run of this configuration" in done.stderr


@pytest.mark.parametrize("command", ["status", "plan"])
def test_a_damaged_table_is_named(copy, command):
    file = one_job(copy, "fedavg") / "runs.parquet"
    file.write_bytes(file.read_bytes()[:100])
    time.sleep(0.01)
    done = fedscan(copy, command, check=False)
    assert done.returncode == 1
    assert str(Path("results", file.relative_to(copy.folder / "results"))) in done.stderr


def test_a_run_with_two_rows_is_named(copy):
    file = one_job(copy, "fedavg") / "runs.parquet"
    table = pq.read_table(file)
    pq.write_table(pa.concat_tables([table, table]), file)
    done = fedscan(copy, "status", check=False)
    assert done.returncode == 1
    assert "has two rows; delete it" in done.stderr
    assert "runs.parquet" in done.stderr


def test_a_value_given_twice_is_refused(copy):
    values = ["--set", "mu=0.1", "--set", "mu=0.2"]
    done = fedscan(copy, "run", "fedprox", *values, "-o", "out", check=False)
    assert done.returncode == 1
    assert "given twice" in done.stderr
