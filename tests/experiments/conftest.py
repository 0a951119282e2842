"""Teachers, learners and evaluations: made once for the rooms that look at them."""

import shutil

import pytest

from fedscan.experiments.bounds import stacks
from fedscan.experiments.bounds import summary as bounds
from tests import jobs
from tests.experiments.bounds.made import (
    LEARNERS,
    PATH,
    SMOOTHNESS,
    STACKS,
    evaluate,
    make_teachers,
    train,
)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    make_teachers(results / "teachers" / PATH)
    train(results)
    evaluate(results)
    settings = {"sequence_length": 32, "learners": LEARNERS, "evaluation": SMOOTHNESS}
    teachers_folder = f"{results}/teachers/{PATH}"
    jobs.run(stacks, settings | {"stacks": STACKS}, f"{results}/stacks", teachers=teachers_folder)
    jobs.run(bounds, {"shapes": [[4, 4]]}, f"{results}/bounds", results=results)
    return results


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "results")
    return tmp_path / "results"
