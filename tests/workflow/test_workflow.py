"""The workflow: a whole run, what reruns when, kills, and configurations that are refused."""

import json
import os
import shutil
import signal
import subprocess
import time
from fnmatch import fnmatch

import pandas as pd
import pytest
import yaml

from fedscan.experiments.registry import tables
from fedscan.io import parquet
from tests.workflow.conftest import ROOT, Project


def test_a_run_ends_in_table_figure_and_checks(finished):
    results = finished.folder / "results"
    table = pd.read_parquet(results / "compare/comparison.parquet")
    main = table[table["study"] == "main"]
    assert sorted(main["algorithm"]) == ["fedavg", "fedprox"]
    assert table["change_percent"].notna().all()
    assert set(table["study"]) == {"main", "client_count", "backbone"}
    numbers = pd.read_parquet(results / "compare/numbers.parquet")
    value = numbers.set_index(["table", "row", "quantity"])["value"]
    assert value["table27", "FedAvg clients=4", "val_ppl"] > 1
    assert value["table28", "FedAvg backbone=attn0", "val_ppl_last10"] > 1
    assert value["table10", "attn0", "attention_layers"] == 4
    assert (results / "compare/validation_curves.png").read_bytes()[:4] == b"\x89PNG"
    assert "synthetic text" in (results / "compare/comparison.txt").read_text()
    checks = pd.read_parquet(results / "check/checks.parquet")
    assert checks["passed"].all()
    assert len(set(checks["check"])) == 46
    summary = (results / "bounds/summary.txt").read_text()
    assert "gradient_norm<=G_SSM" in summary
    log = next((results / "logs/federated").rglob("seed=0.log")).read_text()
    assert "round 2/2: train ppl" in log
    assert "ETA" in log
    assert not list((results / "checkpoints").rglob("*.safetensors"))


def test_every_table_is_where_the_documents_say(finished):
    places = {name: table.places for name, table in tables().items()}
    results, found = finished.folder / "results", set()
    for file in results.rglob("*.parquet"):
        table = json.loads(parquet.read_provenance(file))["table"]
        name = str(file.relative_to(results).with_suffix(""))
        assert any(fnmatch(name, place) for place in places[table]), name
        found.add(table)
    # A part that the small project switches off, and one that nothing asks for.
    off = {"sessa_federated_runs", "sessa_federated_rounds", "sessa_federated_clients"}
    assert found == set(places) - off - {"sessa_speed"}


def test_nothing_to_do_the_second_time(finished):
    assert finished.planned() == {}


# FedAvg and FedProx of the main study, four clients, two backbones of four layers.
TRAININGS = 5
DOWNSTREAM = {"compare": 1, "practice": 1, "check": 1, "html_report": 1}
BOUNDS = {"bounds": 1, "check": 1, "html_report": 1}
# The best federated model is the base of merging.
MERGING = {"merging_base": 1, "specialists": 2, "specialist_accuracy": 1, "merges": 1, "merging": 1}
MERGING |= {"check": 1, "html_report": 1}
# Consensus over depth looks at the best federated model, at all of the main study's, and at merges.
MERGING |= {"consensus_model": 1, "consensus_runs": 1, "consensus_merging": 1, "consensus": 1}
SWEEPS = {"specialist_accuracy": 1, "merges": 1, "merging": 1, "check": 1, "html_report": 1}
SWEEPS |= {"consensus_merging": 1, "consensus": 1}
ITERATED = {"consensus_model": 1, "consensus": 1, "check": 1, "html_report": 1}
# Two mixers on one task.
COMPARED = {"sessa_training": 2, "sessa_diagnostics": 2, "sessa": 1, "check": 1, "html_report": 1}
DATA = {"tokens": 1, "partition": 2, "federated": TRAININGS} | DOWNSTREAM | MERGING
STUDENTS = {"students": 2, "student_tables": 1, "check": 1, "html_report": 1}


def set_lr(project):
    project.config["training"]["lr"] = 0.002
    project.save()


def swap_rounds_and_batch(project):
    training = project.config["training"]
    training["rounds"], training["eval_batch_size"] = training["eval_batch_size"], 2
    project.save()


def add_value(project):
    project.config["studies"]["main"]["hyperparameters"]["fedprox"]["mu"] = [0.001, 0.01]
    project.save()


def add_beta(project):
    project.config["studies"]["main"]["betas"] = [0.7, 1]
    project.save()


def more_rounds(project):
    project.config["training"]["rounds"] = 3
    project.save()


def other_tokenizer(project):
    project.config["tokenizer"]["name"] = "gpt2"
    project.config["model"]["vocab_size"] = 50257
    project.save()


def which_gpus(project):
    project.config["workflow"]["gpus"] = [0]
    project.save()


def touch_inputs(project):
    for file in (project.folder / "results/partition").rglob("*.parquet"):
        file.touch()


def add_seed(project):
    project.config["studies"]["main"]["seeds"] = [0, 1]
    project.save()


def change_data_seed(project):
    project.config["data"]["seed"] = 1
    project.save()


def respell(project):
    text = (project.folder / "config/config.yaml").read_text()
    assert "lr: 0.001\n" in text
    text = text.replace("lr: 0.001\n", "lr: 1.0e-3  # the same number\n")
    (project.folder / "config/config.yaml").write_text(text)


def unused_hyperparameter(project):
    project.config["studies"]["main"]["hyperparameters"]["fedsam"]["radius"] = [0.5]
    project.save()


def edit_fedprox(project):
    project.edit(
        "src/fedscan/federated/algorithms/fedprox.py",
        "global_params), self.mu)",
        "global_params), 2 * self.mu)",
    )


def comment(project):
    project.edit("src/fedscan/federated/engine.py", "import torch\n", "import torch  # comment\n")


def edit_figure(project):
    project.edit("src/fedscan/experiments/comparison/curves.py", "alpha=0.15", "alpha=0.25")


def edit_packing(project):
    project.edit("src/fedscan/data/packing.py", "taken = split = 0", "split = taken = 0")


def learner_lr(project):
    project.config["synthetic"]["learners"]["lr"] = 0.1
    project.save()


def add_learner_seed(project):
    project.config["synthetic"]["learners"]["seeds"] = [0, 1]
    project.save()


def add_rho(project):
    project.config["synthetic"]["rhos"] = [0.5, 0.9, 0.95]
    project.save()


def bound_checkpoint(project):
    project.config["synthetic"]["learners"]["bound_checkpoints"] = [0, 10, 20]
    project.save()


def power_iterations(project):
    project.config["synthetic"]["evaluation"]["iterations"] = 5
    project.save()


def edit_bound(project):
    project.edit("src/fedscan/theory/variation.py", "p1 * variation_p2", "2 * p1 * variation_p2")


def add_student_seed(project):
    project.config["synthetic"]["federated"]["seeds"] = [0, 1]
    project.save()


def edit_student_figure(project):
    project.edit("src/fedscan/experiments/students/figures.py", "capsize=2", "capsize=3")


def edit_bound_figure(project):
    project.edit("src/fedscan/experiments/bounds/figures.py", "ONE_IN = 8", "ONE_IN = 4")


def edit_caption(project):
    project.edit(
        "src/fedscan/experiments/comparison/page.yaml",
        "Fixed hyperparameter",
        "Single hyperparameter",
    )


def edit_published_number(project):
    table = "src/fedscan/experiments/comparison/published/table2.csv"
    project.edit(table, "FedProx,0,-1,-17.0", "FedProx,0,-1,-17.1")


def edit_meaning_in_a_merging_table(project):
    project.edit(
        "src/fedscan/experiments/merging/merge_tables.py", "share of entries TIES keeps", "kept"
    )


def add_column_to_a_merging_table(project):
    project.edit(
        "src/fedscan/experiments/merging/merge_tables.py",
        "MERGE_KEYS = (\n",
        'MERGE_KEYS = (\n    Column("place", TEXT, "-", "a new column"),\n',
    )


def edit_log_format(project):
    project.edit("src/fedscan/pipeline/runner.py", "%H:%M:%S", "%H:%M")


def edit_words_of_waiting(project):
    project.edit("src/fedscan/pipeline/gpu_lease.py", "waiting for", "queueing for")


def edit_progress_line(project):
    project.edit("src/fedscan/experiments/comparison/rows.py", "train ppl", "training ppl")


def edit_mamba2(project):
    project.edit("src/fedscan/models/mamba2.py", "EPS = 1e-5", "EPS = 1.5e-5")


def edit_summary_of_bounds(project):
    project.edit(
        "src/fedscan/experiments/bounds/text.py",
        "measurements: checks",
        "measurements: comparisons",
    )


def edit_label(project):
    project.edit(
        "src/fedscan/federated/algorithms/fedprox.py", '"label": "FedProx"', '"label": "Prox"'
    )


def edit_expectation(project):
    project.edit(
        "src/fedscan/federated/algorithms/fedprox.py", '"expectation": (-1, -1)',
        '"expectation": (-1, 0)',
    )  # fmt: skip


def edit_bound_of_an_algorithm(project):
    project.edit(
        "src/fedscan/federated/algorithms/fedprox.py", '"server_bound": "mean_update"',
        '"server_bound": None',
    )  # fmt: skip


def add_variant(project):
    project.config["consensus"]["variants"]["gate_25"] = {"gate": 0.25}
    project.save()


def more_draws(project):
    project.config["consensus"]["draws"] = 3
    project.save()


def other_batches_of_draws(project):
    project.config["consensus"]["draws_per_batch"] = 1
    project.save()


def edit_statement(project):
    project.edit(
        "src/fedscan/experiments/consensus/statements.py", "TOLERANCE = 1e-10", "TOLERANCE = 1e-9"
    )


def edit_consensus_figure(project):
    project.edit("src/fedscan/experiments/consensus/figures.py", "alpha=0.18", "alpha=0.2")


def add_sessas_rate(project):
    project.config["sessa"]["training"]["lrs"].append(0.01)
    project.save()


def edit_sessas_layer(project):
    project.edit(
        "src/fedscan/models/sessa.py", "INITIAL_GAIN_BIAS = 1.0", "INITIAL_GAIN_BIAS = 0.5"
    )


def edit_claim(project):
    project.edit("src/fedscan/experiments/sessa/claims_fixed.py", "SMALL = 7", "SMALL = 6")


def edit_sessas_figure(project):
    project.edit("src/fedscan/experiments/sessa/figures.py", "SMOOTHED = 20", "SMOOTHED = 10")


def keep_a_round(project):
    project.config["workflow"]["keep_model_rounds"] = [1]
    project.save()


def test_numbers_of_the_command_line_are_numbers(finished):
    planned = finished.planned("--config", 'training={"lr": 0.002}')
    assert planned == {"federated": TRAININGS} | DOWNSTREAM | MERGING
    rate = finished.config["training"]["lr"]
    assert finished.planned("--config", f'training={{"lr": {rate}}}') == {}
    done = finished.run("-n", "--config", 'training={"lr": [1]}', check=False)
    assert "--config: training.lr = [1]" in done.stdout + done.stderr


def similar_percent(project):
    project.config["analysis"]["similar_percent"] = 1.0
    project.save()


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        (set_lr, {"federated": TRAININGS} | DOWNSTREAM | MERGING),
        (more_rounds, {"federated": TRAININGS} | DOWNSTREAM | MERGING),
        (add_beta, {"partition": 1, "federated": 2} | DOWNSTREAM | MERGING),
        (other_tokenizer, DATA | {"task_data": 4}),
        (which_gpus, {"html_report": 1}),
        (touch_inputs, {}),
        (swap_rounds_and_batch, {"federated": TRAININGS} | DOWNSTREAM | MERGING),
        (add_value, {"federated": 1} | DOWNSTREAM | MERGING),
        (add_seed, {"federated": 2} | DOWNSTREAM | MERGING),
        (change_data_seed, DATA),
        (respell, {}),
        (unused_hyperparameter, DOWNSTREAM),
        (edit_fedprox, {"federated": 1} | DOWNSTREAM | MERGING | STUDENTS),
        (comment, {}),
        (edit_figure, DOWNSTREAM),
        (edit_packing, DATA),
        (learner_lr, {"learners": 1, "evaluation": 1, "stacks": 1} | BOUNDS | STUDENTS),
        (add_learner_seed, {"learners": 1, "evaluation": 1, "stacks": 1} | BOUNDS),
        (
            add_rho,
            {"teachers": 1, "learners": 1, "evaluation": 1, "stacks": 1}
            | BOUNDS
            | STUDENTS
            | {"students": 3},
        ),
        (bound_checkpoint, {"evaluation": 1} | BOUNDS),
        (power_iterations, {"evaluation": 1, "stacks": 1} | BOUNDS),
        (edit_bound, {"evaluation": 1} | BOUNDS),
        (add_student_seed, STUDENTS),
        (edit_student_figure, {"student_tables": 1, "html_report": 1}),
        (edit_bound_figure, {"bounds": 1, "html_report": 1}),
        (edit_caption, {"html_report": 1}),
        (similar_percent, DOWNSTREAM),
        (edit_published_number, DOWNSTREAM),
        (edit_meaning_in_a_merging_table, SWEEPS),
        (add_column_to_a_merging_table, SWEEPS),
        (edit_log_format, {}),
        (edit_words_of_waiting, {}),
        (edit_progress_line, {"federated": TRAININGS} | DOWNSTREAM | MERGING),
        (
            edit_mamba2,
            {"federated": TRAININGS, "sessa_theory": 1} | DOWNSTREAM | MERGING | COMPARED,
        ),
        (add_sessas_rate, COMPARED),
        # The study's models have no layer of Sessa: none is trained again.
        (edit_sessas_layer, COMPARED | DOWNSTREAM | {"sessa_theory": 1}),
        (edit_claim, {"sessa_theory": 1, "sessa": 1, "check": 1, "html_report": 1}),
        (edit_sessas_figure, {"sessa": 1, "html_report": 1}),
        (edit_summary_of_bounds, {"bounds": 1, "html_report": 1}),
        (edit_label, DOWNSTREAM | {"student_tables": 1, "consensus": 1}),
        (edit_expectation, DOWNSTREAM | {"student_tables": 1, "consensus": 1}),
        (edit_bound_of_an_algorithm, STUDENTS),
        (add_variant, ITERATED),
        (more_draws, ITERATED),
        (
            other_batches_of_draws,
            ITERATED | {"consensus_runs": 1, "consensus_merging": 1},
        ),
        (edit_statement, ITERATED | {"consensus_theory": 1, "consensus_model": 0}),
        (edit_consensus_figure, {"consensus": 1, "html_report": 1}),
        (keep_a_round, {"federated": TRAININGS} | DOWNSTREAM | MERGING),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_reruns_after_a_change(copy, change, jobs):
    change(copy)
    assert copy.planned() == {rule: count for rule, count in jobs.items() if count}


@pytest.mark.parametrize("table", ["runs", "rounds", "clients", "mixers", "heads"])
def test_deleting_one_output_reruns_its_job(copy, table):
    """Planning names one table per job, and those that are missing beside it."""
    job = next((copy.folder / "results/federated").rglob("algorithm=fedprox/*/runs.parquet")).parent
    (job / f"{table}.parquet").unlink()
    assert copy.planned() == {"federated": 1} | DOWNSTREAM | MERGING


def test_a_table_missing_beside_its_jobs_others_is_never_passed_over(copy):
    file = next((copy.folder / "results/federated").rglob("algorithm=fedprox/*/heads.parquet"))
    file.unlink()
    done = copy.run("--forcerun", "practice", "--", "practice", check=False)
    assert done.returncode != 0
    assert f"{file.relative_to(copy.folder)}: no such file" in done.stdout + done.stderr


def test_results_of_older_code_are_kept_if_asked_and_then_listed(copy):
    copy.config["workflow"]["rerun_on_code_change"] = False
    copy.save()
    copy.run("check")
    table = copy.folder / "results/check/checks.parquet"
    assert set(other_code(table)["detail"]) == {"values of other code: none"}
    before = trained_bytes(copy)
    edit_fedprox(copy)
    add_value(copy)
    copy.run("check")
    old = other_code(table).query("detail != 'values of other code: none'")
    # The value trained before the change is named; the one trained after it is not.
    assert old["detail"].tolist() == ["values of other code: mu=0.001"]
    assert "algorithm=fedprox" in old["subject"].item()
    rows = pd.read_parquet(
        next((copy.folder / "results/federated").rglob("*=fedprox/*/runs.parquet"))
    )
    assert rows["value"].tolist() == ["mu=0.001", "mu=0.01"]
    assert rows["code_hash"].nunique() == 2
    changed = {name for name, data in trained_bytes(copy).items() if data != before[name]}
    assert all("algorithm=fedprox" in name for name in changed)
    # Asked for results of one code again, check would refuse these: training is planned first.
    copy.config["workflow"]["rerun_on_code_change"] = True
    copy.save()
    assert copy.planned()["federated"] == TRAININGS


def test_results_of_another_configuration_are_refused_by_check(copy):
    shutil.rmtree(copy.folder / ".snakemake")  # as if the results had been copied from elsewhere
    set_lr(copy)
    assert "federated" not in copy.planned()
    done = copy.run("--forcerun", "check", "--", "check", check=False)
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "results of the present configuration" in text
    assert "--forcerun federated trains them again" in text
    assert "Traceback" not in text


def test_a_second_workflow_in_the_same_folder_is_refused(copy):
    set_lr(copy)
    command = copy.command("compare")
    first = subprocess.Popen(
        command, cwd=copy.folder, env=copy.environment(), stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 100
        while not list((copy.folder / ".snakemake/locks").glob("*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second = copy.run("--rerun-incomplete", "compare", check=False)
    finally:
        first.send_signal(signal.SIGINT)
        first.wait()
    assert second.returncode != 0
    assert "Directory cannot be locked" in second.stderr


def test_files_from_the_future_lose_nothing(copy):
    """A clock that was wrong: inputs look newer than anything made of them can be."""
    before = copy.results()
    ahead = time.time() + 7 * 24 * 3600
    inputs = list((copy.folder / "results/partition").rglob("*.parquet"))
    for file in inputs:
        os.utime(file, (ahead, ahead))
    assert copy.planned() == {}
    add_value(copy)
    done = copy.run("compare", check=False)
    assert done.returncode != 0
    assert "is dated in the future: a clock is wrong" in done.stderr
    assert copy.results() == before
    for file in inputs:
        file.touch()
    copy.run("compare")
    assert values_of_fedprox(copy) == ["mu=0.001", "mu=0.01"]


def test_the_same_command_continues_after_a_failure_while_adding_a_value(copy):
    before = copy.results()
    add_value(copy)
    blocked = copy.folder / "results/checkpoints"
    shutil.rmtree(blocked, ignore_errors=True)
    blocked.write_text("not a folder\n")
    done = copy.run("compare", check=False)
    assert done.returncode != 0
    assert "fedscan: error" in done.stderr
    assert copy.results() == before
    assert values_of_fedprox(copy) == ["mu=0.001"]
    blocked.unlink()
    assert copy.planned("--", "compare") == {"federated": 1, "compare": 1}
    copy.run("compare")
    assert values_of_fedprox(copy) == ["mu=0.001", "mu=0.01"]
    assert "mu=0.001: already in the tables" in log_of_fedprox(copy).read_text()
    assert copy.planned("--", "compare") == {}


def values_of_fedprox(project):
    table = next((project.folder / "results/federated").rglob("*=fedprox/*/runs.parquet"))
    return pd.read_parquet(table)["value"].tolist()


def log_of_fedprox(project):
    return next((project.folder / "results/logs/federated").rglob("*=fedprox/*.log"))


def other_code(table):
    checks = pd.read_parquet(table)
    return checks[checks["detail"].str.startswith("values of other code")]


def trained_bytes(project):
    return {name: data for name, data in project.results().items() if "federated" in name}


def test_touching_code_without_changing_it_reruns_nothing(copy):
    copy.own_source = True
    (copy.folder / "src/fedscan/federated/engine.py").touch()
    assert copy.planned() == {}


def test_a_new_value_keeps_the_rows_that_exist(copy):
    before = next((copy.folder / "results/federated").rglob("algorithm=fedprox/*/rounds.parquet"))
    rows = pd.read_parquet(before).query("value == 'mu=0.001'")
    add_value(copy)
    copy.run("compare")
    log = (copy.folder / "results/logs").joinpath(
        *before.relative_to(copy.folder / "results").parts[:-2], "seed=0.log"
    )
    assert "mu=0.001: already in the tables" in log.read_text()
    after = pd.read_parquet(before)
    assert set(after["value"]) == {"mu=0.001", "mu=0.01"}
    pd.testing.assert_frame_equal(rows, after.query("value == 'mu=0.001'"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_workflow_continues_and_ends_with_the_same_bytes(tmp_path, how):
    one, other = Project(tmp_path_dir(tmp_path, "cut")), Project(tmp_path_dir(tmp_path, "whole"))
    for project in (one, other):
        project.config["training"]["rounds"] = 40
        project.config["studies"]["main"]["algorithms"] = ["fedavg"]
        project.without_ablations()
    process = subprocess.Popen(
        one.command("compare"),
        cwd=one.folder,
        env=one.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # Tests that were started in the background of a shell ignore SIGINT, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    checkpoint = one.folder / "results/checkpoints"
    deadline = time.monotonic() + 120
    while not list(checkpoint.rglob("*.safetensors")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, how)
    process.wait()
    assert not list((one.folder / "results/federated").rglob("*.tmp"))
    if how == signal.SIGKILL:
        one.run("--unlock")
    one.run("--rerun-incomplete", "compare")
    log = next((one.folder / "results/logs/federated").rglob("seed=0.log")).read_text()
    assert "resuming after round" in log
    other.run("compare")
    assert one.results() == other.results()


def tmp_path_dir(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {lr: 1e-3}\n", "bad.yaml:1: training.lr = '1e-3': expected a number"),
        ("studies: {main: {settings: ['7']}}\n", "bad.yaml:1: studies.main.settings.0 = '7'"),
        (
            "data: {source: local, local: {paths: [nowhere]}}\n",
            "data.local.paths: 'nowhere': no file exists",
        ),
    ],
)
def test_a_bad_configuration_stops_before_any_job_with_one_line(finished, text, message):
    (finished.folder / "bad.yaml").write_text(text)
    done = finished.run("-n", "--configfile", "bad.yaml", check=False)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert message in output
    assert "Traceback" not in output


def test_the_papers_grid_plans(finished):
    whole = yaml.safe_load((ROOT / "config/config.yaml").read_text())["partition"]["settings"]
    settings = finished.folder / "config/settings.yaml"
    settings.write_text(yaml.safe_dump({"partition": {"settings": whole}}))
    jobs = finished.planned("--configfile", "config/paper.yaml", "config/settings.yaml")
    # 72 x 9 x 3 jobs of the main grid; client counts 8, 16, 32; five other backbones
    assert jobs["federated"] == 72 * 9 * 3 + 4 * 3 * 9 * 3 + 5 * 9 * 3
    # settings x betas at K = 4, and settings x three more client counts at 0.7
    assert jobs["partition"] == 12 + 12
    # three bases, four tasks, three seeds, and one evaluation subset
    assert jobs["specialists"] == 3 * 4 * 3
    assert jobs["merges"] == 3 * 3
    assert jobs["task_data"] == 4 * (1 + 3)


def test_lint_is_clean(finished):
    assert finished.run("--lint").returncode == 0


def test_the_snakemake_report_is_written(copy):
    copy.run("--report", "report.html")
    text = (copy.folder / "report.html").read_text()
    for category in ("Comparison", "Theory in practice", "Bounds", "Federated learners"):
        assert category in text
