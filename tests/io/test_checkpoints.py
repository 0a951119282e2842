"""Checkpoints: round trip, damage, and no half-written file after a kill in the middle."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from fedscan.io import atomic, checkpoints


def test_round_trip(tmp_path):
    arrays = {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3).T, "s": np.float64(2.5)}
    arrays = {k: np.asarray(v) for k, v in arrays.items()}
    record = {"round": 3, "loss": 0.1 + 0.2, "bad": math.nan, "big": math.inf}
    checkpoints.save(tmp_path / "c", arrays, record)
    found, facts = checkpoints.load(tmp_path / "c")
    assert all(np.array_equal(found[k], arrays[k]) for k in arrays)
    assert math.isnan(facts.pop("bad"))
    assert facts == {"round": 3, "loss": 0.30000000000000004, "big": math.inf}


def test_same_content_same_bytes(tmp_path):
    for name in "ab":
        checkpoints.save(tmp_path / name, {"x": np.ones(3)}, {"k": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_damage_is_named(tmp_path):
    path = tmp_path / "c"
    checkpoints.save(path, {"x": np.ones(300)}, {})
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="damaged checkpoint .*delete it to start over"):
        checkpoints.load(path)
    save_file({"x": np.ones(3)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of format 'fedscan-2'"):
        checkpoints.load(path)


def test_a_kill_while_writing_leaves_the_previous_file(tmp_path):
    path = tmp_path / "f"
    atomic.write_text(path, "old")
    script = (
        "import os, signal\n"
        "from fedscan.io import atomic\n"
        f"with atomic.replacing({str(path)!r}) as temporary:\n"
        "    temporary.write_text('ne')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script])
    assert done.returncode == -9
    assert path.read_text() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_an_error_before_anything_is_lost(tmp_path):
    atomic.write_text(tmp_path / "f", "old")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OSError, match="Permission"):
            atomic.write_text(tmp_path / "f", "new")
    finally:
        tmp_path.chmod(0o700)
    assert (tmp_path / "f").read_text() == "old"


def test_what_a_checkpoint_holds(tmp_path):
    path, other = tmp_path / "c", tmp_path / "other"
    checkpoints.save(path, {"x": np.ones(300)}, {"code": "a", "round": 1})
    assert checkpoints.holds(path, {"code": "a"})
    assert checkpoints.holds(path, {})
    assert not checkpoints.holds(path, {"code": "b"})
    assert not checkpoints.holds(path, {"missing": None})
    path.write_bytes(path.read_bytes()[:-8])
    save_file({"x": np.ones(3)}, other)
    for bad in (path, other, tmp_path, tmp_path / "none"):
        assert not checkpoints.holds(bad, {})
