"""Full, read-only and locked disks: one clear line, and the previous state stays whole."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.experiments.registry import tables
from fedscan.io import atomic, checkpoints, parquet
from fedscan.pipeline.runner import job
from tests.experiments import tiny

TABLES = tables()


def mount(folder, *options):
    command = ["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own; only root may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount") or not mount(folder, "-o", "size=1m"):
        pytest.skip("this user cannot mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    with open(folder / "ballast", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert "No space left" in str(error)  # noqa: PT017 - the expected end of the loop


def test_a_training_on_a_full_disk_stops_and_goes_on_when_there_is_space(
    prepared, disk, tmp_path, capsys
):
    settings = tiny.settings(rounds=4)
    lines = []

    def report(text):
        lines.append(text)
        if text.startswith("round 2/"):
            fill(disk)

    report.advance = lambda *args: None
    with pytest.raises(SystemExit) as leaving, job(tmp_path / "log"):
        tiny.train(settings, prepared, disk, report)
    assert leaving.value.code == 1
    error = capsys.readouterr().err
    wanted = "none.safetensors could not be written: .*No space left"
    assert re.search(wanted, error)
    assert len(error.splitlines()) == 1
    (left,) = (disk / "checkpoints").iterdir()
    assert checkpoints.load(left)[1]["round"] == 2
    (disk / "ballast").unlink()
    found = tiny.train(settings, prepared, disk, report)
    assert any("resuming after round 2" in line for line in lines)
    assert found == tiny.train(settings, prepared, tmp_path / "elsewhere")


def test_tables_that_do_not_fit_leave_the_old_ones(prepared, disk):
    one = tiny.train(tiny.settings("fedprox", [{"mu": 0.5}]), prepared, disk)
    write = parquet.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "write", lambda *rest: fill(disk) or write(*rest))
        with pytest.raises(OSError, match="could not be written.*No space left"):
            tiny.train(tiny.settings("fedprox", [{"mu": 0.5}, {"mu": 1.0}]), prepared, disk)
    assert {p.stem: p.read_bytes() for p in (disk / "job").glob("*.parquet")} == one
    assert not list(disk.rglob("*.tmp"))


def test_a_read_only_disk_is_named_and_keeps_what_it_has(disk):
    atomic.write_text(disk / "a/f", "old")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for write in (
        lambda: atomic.write_text(disk / "a/f", "new"),
        lambda: atomic.write_text(disk / "b/f", "new"),
        lambda: checkpoints.save(disk / "a/f", {}, {}),
        lambda: parquet.write(disk / "a/f", TABLES["checks"], [], {}),
    ):
        with pytest.raises(OSError, match="f could not be written.*Read-only file system"):
            write()
    assert (disk / "a/f").read_text() == "old"


@pytest.mark.parametrize("number", range(2))
def test_a_full_disk_found_when_flushing(tmp_path, monkeypatch, number):
    """Network file systems report a full disk when a file, or its folder's entry, is flushed."""
    atomic.write_text(tmp_path / "f", "old")
    fsync, calls = os.fsync, iter(range(number))

    def full(descriptor):
        if next(calls, None) is None:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"f could not be written.*No space left"):
        atomic.write_text(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == ("old", "new")[number]
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_job_whose_log_cannot_be_written_says_so(tmp_path):
    (tmp_path / "logs").write_text("a file where a folder should be")
    script = "import sys\nfrom fedscan.pipeline.runner import job\nwith job(sys.argv[1]): pass"
    command = [sys.executable, "-c", script, str(tmp_path / "logs/job.log")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("fedscan: error: the log cannot be written: ")
    assert str(Path(tmp_path, "logs")) in line
