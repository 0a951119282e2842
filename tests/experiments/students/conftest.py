"""Made once for the room's tests."""

import pytest

from fedscan.experiments.students import summary as student_tables
from fedscan.experiments.teachers import teachers
from tests import jobs
from tests.experiments.students.made import CELLS, settings, train


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    sizes = {"train_sequences": 256, "test_sequences": 64, "burn_in": 8, "sequence_length": 32}
    settings_ = {"d_input": 4, "d_state": 4, "rhos": [0.5, 0.95], "code": "c", **sizes}
    jobs.run(teachers, settings_, f"{results}/teachers/D=4/N=4")
    for cell in CELLS:
        train(results, settings(cell))
    cells = [list(cell) for cell in CELLS]
    jobs.run(student_tables, {"cells": cells}, f"{results}/student_tables", results=results)
    return results
