"""An experiment of a handful of files appears everywhere, without an edit outside of them."""

import json
import re

import pandas as pd
import pytest

from tests.workflow.conftest import existing
from tests.workflow.test_commands import fedscan

ROOM = "src/fedscan/experiments/scratch"
FILES = {
    f"{ROOM}/__init__.py": '"""Squares of numbers."""\n',
    f"{ROOM}/config.py": '''"""Which numbers are squared."""

from pydantic import Field

from fedscan.config.types import Count, Grid, Section


class Scratch(Section):
    """Squares of numbers."""

    numbers: Grid[Count] = Field(description="numbers to square")
''',
    f"{ROOM}/tables.py": '''"""The table of squares."""

from fedscan.io.tables import INT, Column, Table

SQUARES = Table(
    "squares",
    (Column("number", INT, "-", "a number"), Column("square", INT, "-", "its square")),
    ("scratch/squares",),
)
''',
    f"{ROOM}/plan.py": '''"""Settings and files of the stage."""


def squares(config):
    """What it uses."""
    return {"numbers": config["scratch"]["numbers"]}


def files(_config):
    """What says that it is done."""
    return {"squares": {"scratch": ["scratch/squares.parquet", "scratch/numbers.parquet"]}}


def units(config):
    """What is counted."""
    return {"squares": len(config["scratch"]["numbers"])}
''',
    f"{ROOM}/squares.py": '''"""Stage ``squares``."""

from matplotlib.figure import Figure

from fedscan.analysis.numbers import Number, numbers_table
from fedscan.experiments.scratch.tables import SQUARES
from fedscan.io import parquet
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers


def run(job):
    """Square, tell and draw."""
    rows = [{"number": n, "square": n * n} for n in job.settings["numbers"]]
    parquet.write(job.folder / "squares.parquet", SQUARES, rows, {})
    found = [Number("squares", str(r["number"]), "square", float(r["square"])) for r in rows]
    write_numbers(numbers_table(found, {}), job.folder, {})

    def draw():
        figure = Figure(figsize=(3, 2))
        figure.subplots().plot([r["square"] for r in rows])
        return figure

    save_figure(draw, job.folder / "curve")
''',
    f"{ROOM}/checks.py": '''"""Squares are squares."""

from fedscan.experiments.scratch.tables import SQUARES
from fedscan.io import parquet
from fedscan.pipeline.checks import Check


def checks(settings, results):
    """One check."""
    rows = parquet.read(results / "scratch/squares.parquet", SQUARES).to_pylist()
    right = [r["number"] for r in rows] == settings["numbers"]
    right &= all(r["square"] == r["number"] ** 2 for r in rows)
    yield Check("squares are squares", "scratch", right, f"{len(rows)} rows")
''',
    f"{ROOM}/page.yaml": """- anchor: scratch
  title: Squares of numbers
  folder: scratch
  intro: Numbers, squared.
  figures:
    curve: The squares, a parabola.
  tables:
    squares: [Squares, Of every number.]
""",
    f"{ROOM}/experiment.py": '''"""Squares of numbers."""

from fedscan.experiments.scratch import config, plan, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS

ROOM = "fedscan.experiments.scratch"

SCRATCH = Experiment(
    name="scratch",
    title="Squares of numbers",
    sections={"scratch": config.Scratch},
    stages={"squares": Stage(f"{ROOM}.squares")},
    targets=("squares",),
    tables=(tables.SQUARES, NUMBERS._replace(places=("scratch/numbers",))),
    files=plan.files,
    units=plan.units,
    results=("scratch",),
    checks=f"{ROOM}.checks",
    checked=plan.squares,
    verified=("squares",),
    reruns=(("squares", "squares", "nothing"),),
)
''',
    "workflow/rules/scratch.smk": """from fedscan.experiments.scratch import plan as scratch


rule squares:
    output:
        table="results/scratch/squares.parquet",
        numbers=multiext("results/scratch/numbers", ".parquet", ".csv", ".txt"),
        png="results/scratch/curve.png",
        svg="results/scratch/curve.svg",
    log:
        "results/logs/squares.log",
    benchmark:
        "results/benchmarks/squares.tsv"
    params:
        key=stage_key(STAGES["squares"], scratch.squares(CONFIG)),
    script:
        "../scripts/run_stage.py"
""",
}
REGISTRY = "src/fedscan/experiments/registry.py"


@pytest.fixture(scope="module")
def extended(finished, tmp_path_factory):
    """The finished project with one more experiment, run."""
    import shutil

    folder = tmp_path_factory.mktemp("extended") / "copy"
    shutil.copytree(finished.folder, folder, symlinks=True, copy_function=shutil.copy2)
    project = existing(folder)
    for name, text in FILES.items():
        file = project.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    line = "from fedscan.experiments.teachers.experiment import TEACHERS\n"
    new = "from fedscan.experiments.scratch.experiment import SCRATCH\n"
    project.edit(REGISTRY, line, new + line)
    project.edit(REGISTRY, "    SESSA,\n)", "    SESSA,\n    SCRATCH,\n)")
    project.config["scratch"] = {"numbers": [1, 2, 3]}
    project.save()
    assert project.planned() == {"squares": 1, "check": 1, "html_report": 1}
    project.run()
    return project


def said(project, *arguments):
    return fedscan(project, *arguments, environment=project.environment())


def test_it_is_run_by_rule_all_checked_and_on_the_page(extended):
    results = extended.folder / "results"
    assert pd.read_parquet(results / "scratch/squares.parquet")["square"].tolist() == [1, 4, 9]
    checks = pd.read_parquet(results / "check/checks.parquet")
    assert checks.loc[checks["check"] == "squares are squares", "passed"].item()
    html = (results / "report/index.html").read_text()
    assert "Squares of numbers" in html
    assert "The squares, a parabola." in html
    assert "snakemake --cores all squares" in html
    assert extended.planned() == {}


def test_it_is_in_schema_grid_plan_and_status(extended):
    assert "its square" in said(extended, "schema", "squares")
    assert "scratch/numbers" not in said(extended, "schema")
    schema = json.loads(said(extended, "schema", "config"))
    assert schema["$defs"]["Scratch"]["properties"]["numbers"]["description"] == "numbers to square"
    assert "scratch: 3 squares" in said(extended, "grid")
    assert re.search(r"squares +│ 1 +│ 1 ", said(extended, "status"))
    numbers = extended.config["scratch"]["numbers"]
    extended.config["scratch"]["numbers"] = [*numbers, 4]
    extended.save()
    text = said(extended, "plan", "--no-measure")
    assert re.search(r"squares +│ 1 .*its configuration or code changed", text)
    extended.config["scratch"]["numbers"] = numbers
    extended.save()


def test_it_is_in_the_preview(extended):
    said(extended, "preview", "-o", "early")
    html = (extended.folder / "early/index.html").read_text()
    assert "The squares, a parabola." in html


def test_its_mistakes_are_one_line(extended):
    done = extended.run("-n", "--config", 'scratch={"numbers": [0]}', check=False)
    assert "--config: scratch.numbers.0 = 0" in done.stdout + done.stderr
