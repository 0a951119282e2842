"""The pins agree with each other, on every machine that the README names; without a network.

What is installed says what it requires. That differs between machines by markers only, which are
evaluated here for each of them, and between builds of torch: PyPI's for Linux requires triton and
CUDA's libraries, a CPU build does not.
"""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

# `pip install --dry-run --report - torch===2.13.0` from PyPI on Linux: requires_dist of torch.
TORCH = "2.13.0"
TORCH_ON_LINUX = [
    'triton==3.7.1; platform_system == "Linux" and python_version < "3.15"',
    'cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"',
    'cuda-toolkit==13.0.3; platform_system == "Linux"',
    'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    'nvidia-cusparselt-cu13==0.8.1; platform_system == "Linux"',
    'nvidia-nccl-cu13==2.29.7; platform_system == "Linux"',
    'nvidia-nvshmem-cu13==3.4.5; platform_system == "Linux"',
]
# torch pins CUDA's libraries itself; certificates must not age.
UNPINNED = re.compile(r"cuda-|nvidia-|setuptools$|certifi$")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = {
    "Linux x86-64": ("Linux", "linux", "x86_64"),
    "Linux arm64": ("Linux", "linux", "aarch64"),
    "macOS arm64": ("Darwin", "darwin", "arm64"),
}
PYPROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]


def surroundings(python, machine):
    system, platform, processor = MACHINES[machine]
    return {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "platform_system": system,
        "sys_platform": platform,
        "platform_machine": processor,
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def pins(environment):
    lines = Path("constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in found
        if pin.marker is None or pin.marker.evaluate(environment)
    }


def required(name, extras, environment):
    try:
        texts = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        texts = []  # another machine's package
    if name == "torch":
        own = [text for text in texts if "platform_system" not in text]
        texts = [*own, *TORCH_ON_LINUX]
    for requirement in map(Requirement, texts):
        cases = [environment | {"extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(requirement.marker.evaluate(c) for c in cases):
            yield requirement


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_satisfies_what_the_others_require(python, machine):
    environment = surroundings(python, machine)
    pinned = pins(environment)
    assert pinned["torch"] == TORCH
    todo, seen = [("fedscan", ("dev",))], set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for requirement in required(name, extras, environment):
            other = canonicalize_name(requirement.name)
            if not UNPINNED.match(other):
                assert other in pinned, f"{name} requires {other}, which is not pinned"
                assert requirement.specifier.contains(pinned[other]), (name, str(requirement))
                todo.append((other, tuple(sorted(requirement.extras))))
    assert {"snakemake", "torch", "numba"} <= {name for name, _ in seen}
    assert ("triton" in {name for name, _ in seen}) == (machine != "macOS arm64")


def python_check():
    """Return the Makefile's check of the Python version, as a program."""
    (text,) = re.findall(r"^CHECK := (.*)$", Path("Makefile").read_text(), flags=re.MULTILINE)
    return text.strip("'").replace("$$", "$")


@pytest.mark.parametrize(
    ("version", "fine"),
    [((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 9), True), ((3, 14, 0), False)],
)
def test_make_says_in_one_line_which_python_is_needed(version, fine):
    check = python_check().removeprefix("import sys; ")
    program = f"import sys; sys.version_info = {version}; {check}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode == 0) == fine
    assert SpecifierSet(PYPROJECT["requires-python"]).contains(".".join(map(str, version))) == fine
    if not fine:
        (line,) = done.stderr.splitlines()
        assert line.startswith("fedscan needs Python 3.11, 3.12 or 3.13, and this is 3.1")
    listed = [c.split(" :: ")[-1] for c in PYPROJECT["classifiers"] if " :: Python :: " in c]
    assert listed == list(PYTHONS)
