"""What the algorithms' files declare, and what happens to one that declares it wrongly."""

import shutil
from typing import get_args

import pytest

from fedscan import declared
from fedscan.config.algorithms import AlgorithmName, Hyperparameters
from fedscan.experiments.students.bounds import LOCAL_BOUNDS, SERVER_BOUNDS
from fedscan.federated.algorithms import ALGORITHMS


def test_declarations_are_those_of_the_imported_files():
    import importlib

    assert list(declared.algorithms()) == list(ALGORITHMS) == list(get_args(AlgorithmName))
    for name, found in declared.algorithms().items():
        module = importlib.import_module(f"fedscan.federated.algorithms.{name}")
        assert found._asdict() | module.ABOUT == found._asdict()
        assert found.summary == module.__doc__.splitlines()[0]
    labels = [found.label for found in declared.algorithms().values()]
    assert len(set(labels)) == len(labels)


def test_every_bound_that_is_named_exists():
    for found in declared.algorithms().values():
        assert found.local_bound in {None, *LOCAL_BOUNDS}
        assert found.server_bound in {None, *SERVER_BOUNDS}


@pytest.mark.parametrize(
    ("algorithm", "values", "right"),
    [
        ("fedprox", {"mu": [0.0]}, True),
        ("fedprox", {"mu": [-0.1]}, False),
        ("fedadam", {"server_lr": [0.1], "beta1": [1.0], "beta2": [0.9], "tau": [0.1]}, False),
        ("fedalign", {"align_mamba2_heads": [2]}, False),
        ("diloco", {"outer_lr": [0.7]}, False),
    ],
)
def test_ranges_become_the_configurations(algorithm, values, right):
    def build():
        return Hyperparameters.model_validate({algorithm: values})

    if right:
        assert getattr(build(), algorithm).model_dump() == values
    else:
        with pytest.raises(ValueError, match=algorithm):
            build()


@pytest.fixture
def edited(tmp_path, monkeypatch):
    folder = shutil.copytree(declared.FOLDER, tmp_path / "algorithms")
    monkeypatch.setattr(declared, "FOLDER", folder)
    declared.algorithms.cache_clear()
    yield folder / "fedprox.py"
    declared.algorithms.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('    "label": "FedProx",\n', "", r"ABOUT has keys .* expected"),
        ("ABOUT = {", "WORDS = {", "expected a function fedprox and the literal ABOUT"),
        ("*, mu: NonNegative", "*, mu", "mu needs an annotation and a line in Args"),
        ("        mu: coefficient", "        nu: coefficient", "mu needs an annotation"),
    ],
)
def test_a_file_that_declares_too_little_is_named(edited, old, new, words):
    text = edited.read_text()
    assert old in text
    edited.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"fedprox\.py: {words}"):
        declared.algorithms()
