"""Made once for the room's tests."""

import shutil
from pathlib import Path

import pytest

from fedscan.experiments.merging import specialists
from tests.experiments.merging import tiny
from tests.experiments.merging.made import evaluate, merge


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Everything, once; tests that change something work on copies."""
    root = tmp_path_factory.mktemp("results") / "merging"
    tiny.prepare(root)
    for task in tiny.TASKS:
        tiny.tune(root, task, specialists)
    evaluate(root)
    merge(root)
    return root


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy/merging"))
