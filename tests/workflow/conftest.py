"""A copy of the workflow in a folder of its own, with a configuration that takes seconds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "partition": {
        "sequence_length": 32,
        "sequences_per_client": 20,
        "settings": {1: ["arxiv", "github"]},
    },
    "model": {"d_model": 16, "d_state": 8, "headdim": 8, "attention_heads": 2, "chunk_size": 16},
    "training": {"rounds": 2, "batch_size": 2, "lr": 0.001},
    "synthetic": {
        "d_input": [4],
        "d_state": [4],
        "rhos": [0.5, 0.95],
        "train_sequences": 256,
        "test_sequences": 128,
        "learners": {
            "updates": 20,
            "checkpoint_every": 10,
            "batch_size": 32,
            "bound_checkpoints": [0, 20],
        },
        "evaluation": {"sequences": 4},
        "federated": {
            "rounds": 2,
            "evaluate_every": 1,
            "subset": 64,
            "core": {"d_input": 4, "d_state": 4, "rho": 0.95},
            "studies": {
                "base": {"local_steps": [2]},
                "clients": {"local_steps": [2]},
                "local_steps": {"local_steps": [1, 4]},
                "partition": {"local_steps": [2]},
            },
        },
        "stacks": {
            "d_input": 4,
            "d_state": 4,
            "depths": [1, 2],
            "rhos": [0.5],
            "length": 6,
            "sequences": 2,
            "updates": 2,
        },
    },
    "merging": {
        "tasks": ["trec", "imdb"],
        "synthetic": {"train_pool": 40, "evaluation_pool": 30},
        "max_tokens": 64,
        "train_cap": 24,
        "evaluation_cap": 12,
        "gradient_examples": 6,
        "fine_tuning": {"epochs": 1, "checkpoint_epochs": [1], "mus": [0]},
        "operators": {
            "task_arithmetic": {"scales": [0.5, 1.0]},
            "ties": {"scales": [1.0], "densities": [0.2]},
        },
    },
    "sessa": {
        "models": {"mixers": ["sessa", "mha"], "d_model": 16, "depth": 1, "match_tolerance": 0.2},
        "tasks": {
            "soup": None,
            "stories": None,
            "recall": None,
            "mqar": {"train": 24, "validation": 4, "test": 12, "test_factors": [1, 2]},
        },
        "training": {"steps": {"mqar": 3}, "batch_size": 4, "validate_every": 3},
        "federated": None,
        "diagnostics": {"tasks": ["mqar"], "sequences": 4, "lags": 16},
        "theory": {"logit_spreads": [0], "gains": [0.3], "retrieval": [[0.5, 1]]},
    },
    "consensus": {
        "tokens": 5,
        "draws": 2,
        "depth": 8,
        "runs": {"tokens": 4, "draws": 2, "depth": 6},
        "merging": {"tokens": 4, "draws": 2, "depth": 6},
        "theory": {
            "kernels": ["isotropic", "definite"],
            "anisotropies": [0.3],
            "n": 3,
            "m": 3,
            "tokens": 2,
            "instances": 1,
            "starts": 2,
            "points": 3,
            "horizon": 4.0,
            "step": 0.1,
        },
    },
    "studies": {
        "main": {
            "clients": [2],
            "settings": ["1"],
            "depths": [1],
            "local_steps": [2],
            "betas": [0.7],
            "seeds": [0],
            "algorithms": ["fedavg", "fedprox"],
            "hyperparameters": {"fedprox": {"mu": [0.001]}},
        },
        "client_count": {
            "clients": [2, 4],
            "depths": [1],
            "local_steps": [2],
            "algorithms": ["fedavg"],
        },
        "backbone": {
            "clients": [2],
            "backbones": ["mamba2", "attn0"],
            "local_steps": [2],
            "algorithms": ["fedavg"],
        },
    },
}


class Project:
    """A copy of the project."""

    def __init__(self, folder):
        self.folder, self.own_source = Path(folder), False
        for name in ("Snakefile", "environment.yml"):
            shutil.copy(ROOT / name, self.folder / name)
        for name in ("workflow", "config", "src"):
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, self.folder / name, ignore=ignore)
        self.config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
        merge(self.config, TINY)
        # A list of domains replaces the default's settings altogether.
        self.config["partition"]["settings"] = TINY["partition"]["settings"]
        self.save()

    def without_ablations(self):
        for name in ("client_count", "backbone"):
            self.config["studies"][name] = self.config["analysis"][name] = None
        self.save()

    def save(self):
        text = yaml.safe_dump(self.config, sort_keys=False)
        (self.folder / "config/config.yaml").write_text(text)

    def command(self, *arguments):
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]

    def environment(self):
        # Compiled kernels are kept per path of their source: the copy is used only if edited.
        source = {"PYTHONPATH": str(self.folder / "src")} if self.own_source else {}
        return os.environ | source | {"PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments, check=True):
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=900,
        )
        if check:
            assert done.returncode == 0, done.stderr[-4000:]
        return done

    def planned(self, *arguments):
        """Rule -> jobs that a dry run would execute."""
        text = self.run("-n", "--quiet", "rules", *arguments).stdout
        found = re.findall(r"^(\w+) +(\d+)$", text, flags=re.MULTILINE)
        return {rule: int(count) for rule, count in found if rule not in ("total", "all")}

    def edit(self, name, old, new):
        file = self.folder / name
        text = file.read_text()
        assert old in text, (name, old)
        self.own_source |= name.startswith("src/")
        file.write_text(text.replace(old, new, 1))

    def results(self):
        """Path -> bytes of every table."""
        folder = self.folder / "results"
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.parquet")}


def merge(base, override):
    for key, value in override.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A project whose run is complete, made once for all processes; tests work on copies."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "a folder ö"
    with FileLock(shared / "finished.lock"):
        if folder.exists():
            return existing(folder)
        folder.mkdir()
        project = Project(folder)
        project.run()
    return project


def existing(folder):
    project = object.__new__(Project)
    project.folder, project.own_source = folder, False
    project.config = yaml.safe_load((folder / "config/config.yaml").read_text())
    return project


@pytest.fixture
def copy(finished, tmp_path):
    """A private copy of the finished project, metadata included."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder, symlinks=True, copy_function=shutil.copy2)
    return existing(folder)
