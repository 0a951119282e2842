"""Damaged files of our own: every truncation is refused by name, no byte is trusted blindly."""

import json
import os
import pickle
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.experiments.registry import tables
from fedscan.io import checkpoints, parquet

TABLES = tables()

ROWS = [{"check": "a", "subject": str(i), "passed": True, "detail": "é"} for i in range(3)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write(path, TABLES["checks"], ROWS, {"versions": {"x": "1"}})
    return path


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoints.save(path, {"x": np.arange(4.0), "y": np.ones((2, 2), np.float32)}, {"round": 3})
    return path


def test_a_table_cut_anywhere_is_refused_by_name(table):
    whole = table.read_bytes()
    for length in range(len(whole)):
        table.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"t\.parquet: not a whole Parquet file"):
            parquet.read(table, TABLES["checks"])


def flips(whole):
    """Every byte with its last bit, and with all its bits, flipped."""
    for place in range(len(whole)):
        for flip in (0x01, 0xFF):
            yield whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :]


def test_a_table_with_any_byte_flipped_is_refused_or_the_flip_did_no_harm(table):
    refused = []
    for content in flips(table.read_bytes()):
        table.write_bytes(content)
        try:
            # Parts of the footer say nothing about the rows: created_by, statistics, ...
            assert parquet.read(table, TABLES["checks"]).to_pylist() == ROWS
        except ValueError as error:
            refused.append(str(error))
    assert not [message for message in refused if str(table) not in message]
    assert len(refused) > len(table.read_bytes()) / 2


def test_a_checkpoint_cut_anywhere_is_refused_by_name(checkpoint):
    whole = checkpoint.read_bytes()
    for length in range(len(whole)):
        checkpoint.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"c\.safetensors: .*checkpoint"):
            checkpoints.load(checkpoint)


def test_a_checkpoint_with_any_byte_flipped_is_refused(checkpoint):
    for content in flips(checkpoint.read_bytes()):
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match=r"c\.safetensors: "):
            checkpoints.load(checkpoint)


class Exploit:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_loading_a_checkpoint_never_executes_code(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in (
        pickle.dumps(Exploit()),
        struct.pack("<Q", 2) + b"{}" + pickle.dumps(Exploit()),
    ):
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match=r"c\.safetensors: .*checkpoint"):
            checkpoints.load(checkpoint)
    assert not (tmp_path / "executed").exists()
    pickle.loads(pickle.dumps(Exploit()))  # it would have
    assert (tmp_path / "executed").exists()


def test_a_table_of_an_older_schema_is_refused_with_what_to_do(table):
    old = pq.read_table(table).drop_columns(["detail"])
    pq.write_table(old, table)
    with pytest.raises(ValueError, match="are not those of table 'checks' in this version.*delete"):
        parquet.read(table, TABLES["checks"])
    changed = pa.table({**{name: old[name] for name in old.column_names}, "detail": [1, 2, 3]})
    pq.write_table(changed, table)
    with pytest.raises(ValueError, match=r"columns.*int64.*delete the file to recompute it"):
        parquet.read(table, TABLES["checks"])


def test_a_checkpoint_of_another_format_is_refused(checkpoint):
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole.replace(checkpoints.FORMAT.encode(), b"fedscan-0"))
    with pytest.raises(ValueError, match="not a checkpoint of format 'fedscan-2'"):
        checkpoints.load(checkpoint)
    head = json.dumps({"__metadata__": {checkpoints.FORMAT: "{"}}).encode()
    checkpoint.write_bytes(struct.pack("<Q", len(head)) + head)
    with pytest.raises(ValueError, match="damaged checkpoint"):
        checkpoints.load(checkpoint)


@pytest.mark.parametrize(
    "reader", [checkpoints.load, lambda path: parquet.read(path, TABLES["checks"])]
)
def test_a_pointer_of_git_lfs_is_not_called_damaged(tmp_path, reader):
    file = tmp_path / "file"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5\n")
    with pytest.raises(ValueError, match="file: a Git LFS pointer"):
        reader(file)
