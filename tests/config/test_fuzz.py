"""Whatever stands in configuration files, it is valid or refused in whole lines, never a crash."""

import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from fedscan.config import files as config_files
from fedscan.config.compose import Config
from fedscan.config.files import ConfigError

DEFAULT = Path("config/config.yaml")
MERGED = yaml.safe_load(DEFAULT.read_text())
fuzzing = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a failure is short as it is
)


def paths(value, so_far=()):
    yield so_far
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*so_far, key))


PATHS = sorted(set(paths(MERGED)) - {()}, key=repr)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["1e-3", "${HOME}", "\n", "a\nb", "../x", "0.7", "fedavg", "1"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3),
    max_leaves=5,
)
mutations = st.tuples(st.sampled_from(PATHS), st.sampled_from(["set", "add", "wrap"]), values)


def mutated(mutation):
    """A file that overrides one place of the default."""
    path, how, value = mutation
    inner = {"set": value, "add": {"unheard": value}, "wrap": [value, value]}[how]
    for key in reversed(path):
        inner = {key: inner}
    return inner


def outcome(*texts):
    """Load the default and then files with these contents."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{index}.yaml") for index in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        try:
            config = config_files.load([DEFAULT, *files])
        except ConfigError as error:
            lines = str(error).splitlines()
            assert lines
            known = tuple(f"{file}:" for file in (DEFAULT, *files))
            assert all(line.startswith(known) for line in lines), lines
            return None
    assert isinstance(config, Config)
    return config


@fuzzing
@given(st.lists(mutations, min_size=1, max_size=3))
@example([(("training",), "set", {"a\x0cb\x85c": 1})])
def test_mutations_in_several_files(found):
    outcome(*(yaml.safe_dump(mutated(mutation)) for mutation in found))


@fuzzing
@given(st.binary(max_size=60) | st.text(max_size=60))
@example("[" * 5000)
@example("a: &a [*a]")
@example("training: &a {rounds: *a}")
@example("training: {rounds: " + "9" * 5000 + "}")
@example("training: {rounds: 2001-99-99}")
@example("2001-01-01: 1")
@example("training: {2001-01-01: 1}")
@example("training: {? [a, b] : 1}")
@example("training: !!set {rounds}")
@example("training: !!python/object/apply:os.system [exit]")
@example("training: {rounds: !!binary aGVsbG8=}")
@example("training: {lr: 1.0e400}")
@example("training: {lr: !!float x}")
@example("training: {lr: !!bool x}")
@example("training: {lr: !!timestamp x}")
@example("%YAML 9.9\n---\na: 1")
@example("a: 1\n---\nb: 2")
@example("training: {rounds: 0o7}\ttraining: 1")
@example("\ufeff")
@example("training: {<<: 1}")
@example("{a: {b: " * 500 + "1" + "}}" * 500)
@example("{}")
def test_garbage_for_a_file(text):
    # An empty mapping overrides nothing: a random file may be one.
    assert outcome(text) in (None, config_files.load([DEFAULT]))


@fuzzing
@given(st.data())
def test_a_damaged_default(data):
    text = DEFAULT.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 200))
    new = data.draw(st.binary(max_size=10))
    outcome(text[:start] + new + text[start + length :])


def test_merging_is_by_key_and_the_last_file_wins():
    first, second = "training: {rounds: 3, lr: 0.5}", "training: {rounds: 4}"
    config = outcome(first, second)
    assert (config.training.rounds, config.training.lr) == (4, 0.5)
    assert config.model.d_model == MERGED["model"]["d_model"]


@pytest.mark.parametrize("path", [p for p in PATHS if len(p) == 2 and p[0] != "studies"], ids=str)
def test_every_key_refuses_what_no_key_takes(path):
    assert outcome(yaml.safe_dump(mutated((path, "set", {"unheard of": [None]})))) is None
