"""Both Slurm profiles on a real Slurm of this machine, which the tests start and stop."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from tests.workflow.conftest import Project, existing

SCRIPTS = Path(__file__).with_name("slurm")
ROUNDS = 60
PLUGINS = ("snakemake_executor_plugin_cluster_generic", "snakemake_executor_plugin_slurm")
# What differs from a real cluster: faster polls, a local disk.
GENERIC = ("--workflow-profile", "workflow/profiles/slurm-generic")
GENERIC += ("--seconds-between-status-checks", "1", "--latency-wait", "5")
PLUGIN = ("--workflow-profile", "workflow/profiles/slurm")
PLUGIN += ("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5")


def missing():
    """Why there can be no Slurm here; empty if there can."""
    programs = [p for p in ("slurmctld", "slurmd", "munged", "sbatch") if not shutil.which(p)]
    if programs:
        return f"no {', '.join(programs)} (tests/install_slurm.sh installs them)"
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    plugins = [name for name in PLUGINS if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(plugins)}" if plugins else ""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A running Slurm: one for all processes, since its configuration stands in one place."""
    if reason := missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with FileLock(Path("/tmp", "fedscan-slurm.lock"), timeout=500):
        folder = tmp_path_factory.mktemp("slurm")
        started = subprocess.run([SCRIPTS / "up.sh", folder], stderr=subprocess.PIPE, text=True)
        if started.returncode == 3:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(started.stderr)
        try:
            assert started.returncode == 0, started.stderr
            yield folder
        finally:
            subprocess.run([SCRIPTS / "down.sh", folder], check=True)


def tables(algorithm, seed):
    job = f"depth=1/E=2/beta=0.7/algorithm={algorithm}/seed={seed}"
    return f"results/federated/backbone=mamba2/clients=2/setting=1/{job}/runs.parquet"


SEEDS = [tables("fedavg", seed) for seed in (0, 1)]


def log(project, target):
    return project.folder / target.replace("federated", "logs/federated").replace(
        "/runs.parquet", ".log"
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two trainings of one partition, run without Slurm and without interruption."""
    project = Project(tmp_path_factory.mktemp("whole"))
    project.config["training"]["rounds"] = ROUNDS
    project.config["studies"]["main"]["seeds"] = [0, 1]
    project.without_ablations()
    project.run(*SEEDS)
    return project


@pytest.fixture
def partitioned(whole, tmp_path):
    """A copy in which nothing is trained yet."""
    folder = tmp_path / "copy"
    shutil.copytree(whole.folder, folder, symlinks=True, copy_function=shutil.copy2)
    shutil.rmtree(folder / "results/federated")
    shutil.rmtree(folder / "results/logs")
    return existing(folder)


def start(project, *arguments, **environment):
    # SIGTERM would wait for the jobs; SIGINT ends a run that hangs.
    command = ["timeout", "--signal=INT", "--kill-after=20", "150", sys.executable, "-m"]
    return subprocess.Popen(
        [*command, "snakemake", *arguments],
        cwd=project.folder,
        env=project.environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output = process.communicate()[0]
    assert process.returncode != 124, f"hangs:\n{output[-4000:]}"
    return process.returncode, output


def training(project, seed):
    """Wait until the training has a checkpoint; return its Slurm job."""
    folder = project.folder / "results/checkpoints"
    deadline = time.monotonic() + 100
    while not [p for p in folder.rglob("*.safetensors") if p.parent.name == f"seed={seed}"]:
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.05)
    for file in (project.folder / "results/logs/slurm").glob("federated-*.out"):
        if f"seed {seed}\n" in file.read_text():
            return file.stem.removeprefix("federated-")
    raise AssertionError(f"no job of seed {seed}")


def resumed(project, target):
    return "resuming after round" in log(project, target).read_text()


def trained(project):
    return {name: data for name, data in project.results().items() if "federated" in name}


def of_seed_0(project):
    return {name: data for name, data in trained(project).items() if "seed=0" in name}


def scheduler(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_project_runs_on_slurm_with_the_same_bytes_as_without(slurm, whole, tmp_path):
    (tmp_path / "fresh").mkdir()
    project = Project(tmp_path / "fresh")
    project.config = whole.config
    project.save()
    code, output = finish(start(project, SEEDS[0], *GENERIC))
    assert code == 0, output[-4000:]
    wanted = {name: data for name, data in whole.results().items() if "seed=1" not in name}
    assert project.results() == wanted
    names = {p.name.split("-")[0] for p in (project.folder / "results/logs/slurm").iterdir()}
    assert names == {"tokens", "partition", "federated"}


def test_killed_and_requeued_jobs_go_on_from_their_checkpoints(slurm, whole, partitioned):
    run = start(partitioned, *SEEDS, *GENERIC)
    # SIGKILL to every process: the job fails, and Snakemake submits another.
    scheduler("scancel", "--signal=KILL", "--full", training(partitioned, 0))
    # SIGTERM to every process, later SIGKILL: Slurm starts the same job again.
    requeued = training(partitioned, 1)
    scheduler("scontrol", "requeue", requeued)
    code, output = finish(run)
    assert code == 0, output[-4000:]
    assert output.count("Submitted job") == 3
    assert "Restarts=1" in scheduler("scontrol", "show", "job", requeued)
    assert all(resumed(partitioned, target) for target in SEEDS)
    assert trained(partitioned) == trained(whole)


def test_a_job_that_a_more_urgent_one_cancels_is_submitted_again(slurm, whole, partitioned):
    run = start(partitioned, SEEDS[0], *GENERIC, SBATCH_PARTITION="cancelled")
    preempted = training(partitioned, 0)
    urgent = ("--partition=urgent", "--exclusive", "--mem=100", "--output=/dev/null")
    scheduler("sbatch", *urgent, "--wrap=sleep 1")
    code, output = finish(run)
    assert code == 0, output[-4000:]
    assert "JobState=PREEMPTED" in scheduler("scontrol", "show", "job", preempted)
    assert output.count("Submitted job") == 2
    assert resumed(partitioned, SEEDS[0])
    assert trained(partitioned) == of_seed_0(whole)


def test_a_failing_job_has_a_gpu_and_leaves_the_others_alone(slurm, partitioned):
    partitioned.edit(
        "src/fedscan/federated/algorithms/fedprox.py",
        "    return fedavg()",
        '    import os\n\n    raise ValueError("GPU " + os.environ["CUDA_VISIBLE_DEVICES"])\n\n'
        "    return fedavg()",
    )
    failing = tables("fedprox", 0)
    extra = ("--retries", "0", "--set-resources", "federated:gpu=1")
    code, output = finish(start(partitioned, failing, SEEDS[0], *GENERIC, *extra))
    assert code == 1, output[-4000:]
    assert (partitioned.folder / SEEDS[0]).exists()
    assert not (partitioned.folder / failing).exists()
    assert re.search(r"ValueError: GPU [01]\n", log(partitioned, failing).read_text())


def test_snakemakes_slurm_plugin_runs_jobs_with_the_same_bytes(slurm, whole, partitioned):
    code, output = finish(start(partitioned, SEEDS[0], *PLUGIN))
    assert code == 0, output[-4000:]
    assert "has been submitted with SLURM jobid" in output
    assert trained(partitioned) == of_seed_0(whole)
