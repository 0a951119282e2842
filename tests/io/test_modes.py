"""Who may read a file is the umask's decision, whatever library writes it."""

import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedscan.io import atomic, checkpoints, parquet
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline import figures as figure_files
from fedscan.pipeline import model_files
from fedscan.pipeline import numbers as number_files
from fedscan.pipeline.tables import CHECKS

ROW = {"check": "a", "subject": "x", "passed": True, "detail": ""}
SHAPE = Architecture(layout(1), 16, 8, 4, 2, 8, 1, 2, 40, 8, 8)
MODEL = (SHAPE, dict(initialise(SHAPE, 0).named_parameters()))


def table_with_text(folder):
    number_files.write_table(pd.DataFrame([ROW]), CHECKS, Path(folder), {})


WRITERS = {
    "text": lambda folder: atomic.write_text(f"{folder}/a.txt", "a"),
    "table": lambda folder: parquet.write(f"{folder}/a.parquet", CHECKS, [ROW], {}),
    "model": lambda folder: model_files.write_base(Path(folder), *MODEL),
    "checkpoint": lambda folder: checkpoints.save(f"{folder}/a", {"x": np.ones(3)}, {}),
    "figure": lambda folder: figure_files.save_figure(Figure, Path(folder, "a")),
    "numbers": table_with_text,
}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
@pytest.mark.parametrize("writer", WRITERS)
def test_the_umask_decides(tmp_path, writer, umask, mode):
    before = os.umask(umask)
    try:
        for _ in range(2):  # made, and replaced
            WRITERS[writer](str(tmp_path))
    finally:
        os.umask(before)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert {oct(stat.S_IMODE(file.stat().st_mode)) for file in files} == {oct(mode)}
