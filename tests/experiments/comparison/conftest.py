"""Made once for the room's tests."""

import shutil

import pytest

from tests.experiments.comparison import made


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """Trained, compared and practised."""
    results = tmp_path_factory.mktemp("comparison")
    made.prepare(results)
    made.compare(results)
    made.practise(results)
    return results


@pytest.fixture
def copy(compared, tmp_path):
    return shutil.copytree(compared, tmp_path / "results")
