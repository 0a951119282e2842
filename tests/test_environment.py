"""The three descriptions of the environment agree, and their pins exist."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPROJECT = tomllib.loads(Path("pyproject.toml").read_text())
ENVIRONMENT = yaml.safe_load(Path("environment.yml").read_text())


def constraints():
    lines = Path("constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def pip_part():
    (section,) = (d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict))
    return section


def requirements(group):
    project = PYPROJECT["project"]
    listed = project["dependencies"] if group is None else project["optional-dependencies"][group]
    return [Requirement(text) for text in listed]


def test_every_requirement_is_pinned_inside_its_range():
    pins = constraints()
    for requirement in [*requirements(None), *requirements("dev")]:
        pin = pins[canonicalize_name(requirement.name)]
        (version,) = (spec.version for spec in pin.specifier)
        assert requirement.specifier.contains(version), requirement


def test_pins_are_what_is_installed():
    # A pin that does not exist could not be installed by the command that runs these tests.
    pins = constraints()
    assert str(pins["torch"].specifier) == "==2.13.0"
    for requirement in [*requirements(None), *requirements("dev")]:
        name = canonicalize_name(requirement.name)
        installed = importlib.metadata.version(name).split("+")[0]
        assert pins[name].specifier.contains(installed), (name, installed)


def test_conda_environment_agrees():
    lines = pip_part()
    assert lines[0] == "--constraint constraints.txt"
    assert re.fullmatch(r"--editable \.\[dev,gpu\]", lines[-1])
    pins = {canonicalize_name(r.name): r for r in map(Requirement, lines[1:-1])}
    assert pins["torch"] == constraints()["torch"]
    gpu = {canonicalize_name(r.name): r for r in requirements("gpu")}
    for name in ("mamba-ssm", "causal-conv1d"):
        assert str(pins[name].specifier) == str(gpu[name].specifier)
    conda = [d for d in ENVIRONMENT["dependencies"] if isinstance(d, str)]
    (torch,) = (d for d in conda if d.startswith("pytorch-gpu"))
    assert torch == f"pytorch-gpu={pins['torch'].specifier}".replace("==", "", 1)
    (python,) = (d for d in conda if d.startswith("python="))
    wanted = PYPROJECT["project"]["requires-python"]
    assert Requirement(f"python{wanted}").specifier.contains(python.removeprefix("python="))


def test_no_machine_path_and_no_registry_is_named():
    tracked = [p for p in Path().rglob("*") if p.suffix in {".py", ".md", ".toml", ".yml", ".yaml"}]
    tracked = [p for p in tracked if not {".venv", "results", ".snakemake"} & set(p.parts)]
    for file in tracked:
        text = file.read_text(encoding="utf-8")
        assert "index" + "-url" not in text, file
        assert "../" + "shared" not in text, file
