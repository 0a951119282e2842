"""What asks for a GPU, in the workflow and beside it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.experiments.registry import STAGES
from tests.workflow.conftest import Project


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


WORDS = {
    "federated": 'CONFIG["training"]["device"] == "cuda"',
    "evaluation": 'CONFIG["synthetic"]["evaluation"]["kernels"] == "triton"',
    "specialists": 'MERGING["device"] == "cuda"',
    "specialist_accuracy": 'MERGING["device"] == "cuda"',
    "merges": 'MERGING["device"] == "cuda"',
}


@pytest.mark.parametrize("rule", WORDS)
def test_what_runs_on_a_gpu_asks_for_one_and_takes_a_place(rule):
    # A dry run prints a rule's message instead of its resources.
    rules = "".join(file.read_text() for file in Path("workflow/rules").glob("*.smk"))
    (text,) = re.findall(
        rf"^rule {rule}:\n(.*?)^    script:", rules, flags=re.DOTALL | re.MULTILINE
    )
    assert f"gpu=1 if {WORDS[rule]} else 0," in text
    assert STAGES[rule].device is not None


def test_commands_take_a_place_too(project):
    project.config["training"]["device"] = "cuda"
    project.save()
    for arguments in (["run", "fedavg", "-o", "out"], ["plan"]):
        done = subprocess.run(
            [sys.executable, "-m", "fedscan.cli", *arguments],
            cwd=project.folder,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        expected = "fedscan: error: training.device is cuda and CUDA_VISIBLE_DEVICES='' hides every"
        (line,) = done.stderr.splitlines()
        assert line.startswith(expected)
