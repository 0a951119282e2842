"""Whatever a command prints on: what was asked for, or one right line; never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ("schema",),
    ("schema", "rounds"),
    ("schema", "config"),
    ("grid",),
    ("status",),
    ("data", "inspect"),
    ("--help",),
    ("run", "--help"),
]
FULL = Path("/dev/full")


def fedscan(*arguments, **options):
    options = {"stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"} | options
    return subprocess.run([sys.executable, "-m", "fedscan.cli", *arguments], **options)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(command):
    if not FULL.exists():
        pytest.skip("no /dev/full")
    with FULL.open("w") as full:
        done = fedscan(*command, stdout=full)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == "fedscan: error: the output cannot be written: No space left on device"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_pipe_is_no_error_to_talk_about(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = fedscan(*command, stdout=writing)
    os.close(writing)
    assert done.stderr == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_ascii_is_enough(command):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = fedscan(*command, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_narrow_terminal_is_wide_enough(command):
    done = fedscan(*command, stdout=subprocess.PIPE, env=os.environ | {"COLUMNS": "20"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_under_the_log_is_named_once(tmp_path):
    # As on a full disk: every byte that is written fails, also those left over at the end.
    script = """
import sys
from fedscan.pipeline.runner import job
with job(sys.argv[1], echo=True) as report:
    report("a line")
"""
    log = tmp_path / "job.log"
    log.symlink_to(FULL)
    done = subprocess.run(
        [sys.executable, "-c", script, str(log)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"the log {log} could not be written: No space left on device" in line


@pytest.mark.parametrize("command", [("status",), ("preview", "-o", "out")], ids=" ".join)
def test_a_folder_of_results_that_is_not_there_is_a_mistake(tmp_path, command):
    (tmp_path / "file").write_text("")
    for place in ("nowhere", "file"):
        done = fedscan(*command, "--results", str(tmp_path / place), stdout=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr == f"fedscan: error: --results {tmp_path / place}: no such folder\n"
