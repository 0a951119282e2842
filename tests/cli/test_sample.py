"""fedscan sample: stories written on, and what cannot write."""

import shutil

import pytest

from tests.cli.test_app import call, config
from tests.experiments.sessa import tiny

__all__ = ["config"]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for task in ("stories", "soup"):
        tiny.data(root, task)
        tiny.training(root, task, "sessa", training={"lrs": [0.003]})
    return root / "sessa/training"


def model(room, task="stories"):
    return str(next((room / f"task={task}/mixer=sessa/models").glob("*.safetensors")))


def test_a_story(room):
    command = ["sample", model(room), "--prompt", "Mina", "--tokens", "20"]
    text = call(*command)
    assert text.startswith("Mina")
    assert call(*command) == text
    assert call(*command, "--seed", "1") != text
    assert call(*command, "--temperature", "0") == call(*command, "--temperature", "0")


def test_trained_tokens(tmp_path):
    changes = {"tasks": {"stories": {"tokenizer": "bpe", "vocab_size": 300}}}
    tiny.data(tmp_path, "stories", **changes)
    folder = tiny.training(tmp_path, "stories", "mha", **changes)
    file = next(folder.rglob("*.safetensors"))
    assert call("sample", str(file), "--prompt", "Zoë", "--tokens", "9").startswith("Zoë")


def test_what_cannot_write(room, tmp_path):
    for command, message in (
        (["sample", model(room, "soup")], "only those of stories write text"),
        (["sample", model(room), "--prompt", ""], "the prompt is empty"),
        (["sample", str(tmp_path / "nothing.safetensors")], "nothing.safetensors"),
    ):
        assert message in call(*command, code=1)
    moved = tmp_path / "task=stories/copy.safetensors"
    moved.parent.mkdir()
    shutil.copy(model(room), moved)
    assert "not below a folder training/" in call("sample", str(moved), code=1)
