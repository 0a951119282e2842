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
