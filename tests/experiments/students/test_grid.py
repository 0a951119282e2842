"""The paper's 1,200 federated runs, by the numbers of its Table 13."""

from collections import Counter

from fedscan.config.files import load
from fedscan.experiments.students.grid import Cell, cell_path, cells, student_runs


def paper():
    config = load(["config/config.yaml", "config/paper.yaml"])
    return config.model_dump(mode="json")["synthetic"]


def test_the_papers_grid():
    synthetic = paper()
    grid = student_runs(synthetic)
    assert len(grid) == 72
    assert sum(map(len, grid.values())) == 1200
    core = cells(synthetic, "core")
    assert len(core) == 16
    assert {len(grid[cell]) for cell in core} == {54}
    assert {len(runs) for cell, runs in grid.items() if cell not in core} == {6}
    by_study = Counter(name for runs in grid.values() for run in runs for name in run.studies)
    assert by_study == {
        "base": 432, "clients": 288, "local_steps": 288, "mu": 96, "partition": 96,
    }  # fmt: skip


def test_paths_and_names():
    assert cell_path(Cell(8, 4, 0.95)) == "D=8/N=4/rho=0.95"
    runs = student_runs(paper())[Cell(8, 8, 0.3)]
    names = [run.name for run in runs]
    assert len(set(names)) == 54
    assert "clients=4,local_steps=16,partition=iid,algorithm=fedprox,value=mu=0.01,seed=0" in names
