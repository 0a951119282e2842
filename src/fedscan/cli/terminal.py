"""What a command prints on: a terminal, a pipe that is closed early, a full disk, ASCII only."""

import errno
import io
import os
import sys
from collections.abc import Callable


def run(command: Callable[[], object]) -> None:
    """Run a command to its end, and say in one line if its output cannot be written.

    Characters that the output's encoding lacks are written as escapes.

    Args:
        command: prints, and may leave with SystemExit.

    Raises:
        SystemExit: always; with code 1 if the output was not written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    leaving = SystemExit(0)
    try:
        try:
            command()
        except SystemExit as error:
            leaving = error
        sys.stdout.flush()
    except OSError as error:
        # What is still unwritten would fail once more, with a traceback, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # whoever closed the pipe has read enough
            reason = error.strerror or str(error)
            print(f"fedscan: error: the output cannot be written: {reason}", file=sys.stderr)
        leaving = SystemExit(1)
    raise leaving
