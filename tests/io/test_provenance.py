"""Fingerprints: code counts, comments do not, and a registry's other members do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.experiments.registry import STAGES
from fedscan.io import provenance

CHOICE = {"fedscan.federated.algorithms": "fedprox"}


def fingerprint(source, entry, choices):
    script = (
        "import sys\nfrom pathlib import Path\nfrom fedscan.io import provenance\n"
        f"provenance.SOURCE_ROOT = Path({str(source)!r})\n"
        f"print(provenance.code_fingerprint({entry!r}, choices={choices!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path):
    shutil.copytree("src/fedscan", tmp_path / "fedscan")
    return tmp_path


def edit(source, name, old, new):
    file = source / "fedscan" / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("federated/engine.py", "round_index + 1", "round_index + 2", True),
        ("params/algebra.py", "ROW = 1024", "ROW = 2048", True),
        ("federated/algorithms/fedprox.py", "mu)", "2 * mu)", True),
        ("federated/algorithms/fedavg.py", "add(params", "add(None or params", True),
        ("federated/algorithms/scaffold.py", "bound / size", "bound", False),
        ("federated/algorithms/__init__.py", '    "fedsam": fedsam,\n', "", False),
        ("federated/engine.py", '"""The round loop', '"""A round loop', False),
        ("federated/engine.py", "import torch\n", "import torch  # the library\n", False),
        ("experiments/comparison/curves.py", "alpha=0.15", "alpha=0.5", False),
        ("__init__.py", "0.1", "0.9", False),
    ],
)  # fmt: skip
def test_what_changes_the_fingerprint_of_a_training(source, name, old, new, changes):
    entry = "fedscan.experiments.comparison.training"
    before = fingerprint(source, entry, CHOICE)
    edit(source, name, old, new)
    assert (fingerprint(source, entry, CHOICE) != before) == changes


@pytest.mark.parametrize("rule", STAGES)
def test_every_stage_has_a_fingerprint_that_its_own_code_changes(source, rule):
    entry = STAGES[rule].module
    before = fingerprint(source, entry, None)
    file = source.joinpath(*entry.split(".")).with_suffix(".py")
    file.write_text(file.read_text() + "\nEXTRA = 1\n")
    assert fingerprint(source, entry, None) != before


def test_unknown_modules_are_named():
    with pytest.raises(ValueError, match="no module 'fedscan.nothing'"):
        provenance.code_fingerprint("fedscan.nothing")
    with pytest.raises(ValueError, match="algorithms.fedother"):
        provenance.code_fingerprint(
            "fedscan.experiments.comparison.training",
            choices={"fedscan.federated.algorithms": "fedother"},
        )


def test_digest_depends_on_every_value_and_not_on_order():
    one = provenance.digest({"rounds": 1, "local_steps": 2})
    assert one == provenance.digest({"local_steps": 2, "rounds": 1})
    assert one != provenance.digest({"rounds": 2, "local_steps": 1})


def test_the_source_is_where_it_should_be():
    assert (Path(provenance.SOURCE_ROOT) / "fedscan" / "seeds.py").is_file()
