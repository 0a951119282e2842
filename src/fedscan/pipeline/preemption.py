"""Being told to stop: finish the step that is under way, keep its checkpoint, and leave.

A cluster that takes a machine back sends SIGTERM first and SIGKILL some time later. After SIGTERM a
job goes on to its next checkpoint (a training job: the end of its round) and exits with
``PREEMPTED``; the next start continues there. A second SIGTERM, or SIGKILL, ends it at once; then
the work since the last checkpoint is done again, with the same result.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# EX_TEMPFAIL of sysexits.h: try again.
PREEMPTED = 75
_asked = threading.Event()


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Note SIGTERM instead of dying of it.

    Yields:
        Nothing; without effect outside the main thread, where signals cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.clear()
    before = signal.signal(signal.SIGTERM, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_if_asked() -> None:
    """Leave, if SIGTERM came; called where everything done so far is on disk.

    Raises:
        SystemExit: with code ``PREEMPTED``.
    """
    if _asked.is_set():
        raise SystemExit(PREEMPTED)


@contextlib.contextmanager
def nothing_to_lose() -> Iterator[None]:
    """Leave at once when SIGTERM comes: for waiting, with no work to keep.

    Yields:
        Nothing; without effect outside ``listening``.

    Raises:
        SystemExit: with code ``PREEMPTED``.
    """
    if signal.getsignal(signal.SIGTERM) is not _note:
        stop_if_asked()
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        stop_if_asked()
        yield
    finally:
        signal.signal(signal.SIGTERM, _note)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(PREEMPTED)


def _note(number: int, _frame: FrameType | None) -> None:
    _asked.set()
    signal.signal(number, signal.SIG_DFL)
