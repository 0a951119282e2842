import pytest

from tests.experiments import tiny


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    return tiny.prepare(tmp_path_factory.mktemp("tiny"))
