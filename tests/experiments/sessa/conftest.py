"""Made once for the room's tests."""

import pytest

from tests.experiments.sessa import tiny


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Everything but the summary; tests that change something work on copies."""
    root = tmp_path_factory.mktemp("results")
    tiny.everything(root)
    return root


@pytest.fixture
def copy(finished, tmp_path):
    return tiny.copied(finished, tmp_path)
