"""The surroundings of a stage: its log, its errors, its progress on a terminal, its GPU."""

import contextlib
import fcntl
import functools
import importlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedscan.io.provenance import code_fingerprint
from fedscan.pipeline.gpu_lease import lease
from fedscan.pipeline.machine_code import require_machine_code_of_this_cpu
from fedscan.pipeline.preemption import PREEMPTED, listening, stop_if_asked
from fedscan.pipeline.stage import Job, Stage

RESULTS, SCRATCH = Path("results"), "checkpoints"


def main(snakemake: Any, stage: Stage) -> None:
    """Run the job that Snakemake started: the whole of workflow/scripts/run_stage.py.

    Args:
        snakemake: what it hands to scripts.
        stage: of the rule.
    """
    folder = Path(snakemake.output[0]).parent
    with job(snakemake.log[0]) as report:
        if stage.resumes:
            refuse_future(snakemake.input)
        work = Job(
            json.loads(snakemake.params.key),
            {name: _place(files) for name, files in snakemake.input.items()},
            RESULTS,
            folder,
            RESULTS / SCRATCH / folder.relative_to(RESULTS),
            report,
            stop_if_asked,
        )
        run(stage, work, snakemake.config)


def run(stage: Stage, work: Job, config: Mapping[str, Any]) -> None:
    """Run a stage, on a GPU of its own if it asks for one.

    Args:
        stage: what to run.
        work: one job of it.
        config: the whole configuration, as JSON-like data.

    Raises:
        ValueError: if it asks for a GPU and there is none.
    """
    # The place is held before the stage's module loads torch, which looks at what is visible.
    with on_device(stage.device, config, work.report):
        importlib.import_module(stage.module).run(work)


def on_device(
    key: str | None, config: Mapping[str, Any], report: Callable[[str], None]
) -> contextlib.AbstractContextManager[object]:
    """Hold a place on a GPU if a key of the configuration asks for one.

    Args:
        key: dotted, e.g. 'training.device'; None: nothing asks.
        config: the whole configuration, as JSON-like data.
        report: told what is waited for.

    Returns:
        To be entered before CUDA is used.

    Raises:
        ValueError: if it asks for a GPU and there is none.
    """
    if key is None:
        return contextlib.nullcontext()
    value = functools.reduce(lambda section, name: section[name], key.split("."), config)
    return lease(str(value), config["workflow"], report, key)


def _place(files: str | Iterable[str]) -> Path:
    """Return an input's file or, of several, the folder of the first."""
    if isinstance(files, str):
        return Path(files)
    return Path(next(iter(files))).parent


class Log:
    """Writes dated lines to a job's log file and, when it holds the terminal, shows a live bar."""

    def __init__(self, stream: TextIO, bar: Progress | None, echo: bool) -> None:
        """Write to ``stream``, and to stderr if ``echo``; ``bar`` is None without a terminal."""
        self._stream, self._bar, self._echo = stream, bar, echo
        self._task = None if bar is None else bar.add_task("", total=None, status="")

    def __call__(self, text: str) -> None:
        """Write one line, flushed, so that the log can be followed."""
        self.detail(text)
        if self._echo and self._bar is None:
            print(text, file=sys.stderr)

    def detail(self, text: str) -> None:
        """Write to the log file only.

        Raises:
            OSError: names the log, where it is a file.
        """
        try:
            self._stream.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            self._stream.flush()
        except OSError as error:
            name = getattr(self._stream, "name", "")
            reason = f"the log {name} could not be written: {error.strerror}"
            raise OSError(error.errno, reason) from None

    def advance(self, title: str, done: int, total: int, status: str) -> None:
        """Show ``done`` of ``total`` with a short status on the live bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, description=title, completed=done, total=total, status=status
            )


@contextlib.contextmanager
def job(log: str | os.PathLike[str], echo: bool = False) -> Iterator[Log]:
    """Run a stage: log to a file, and turn bad input into one line instead of a traceback.

    Args:
        log: file of the log; replaced.
        echo: print the lines to stderr too, where no live bar stands.

    Yields:
        The job's log.

    Raises:
        SystemExit: with code 1 after a ValueError or OSError, whose text is logged and printed;
            with code 75 after SIGTERM, see ``preemption``.
    """
    keep_compiled_kernels()
    with _opened(log) as stream, _live_bar() as bar, listening():
        report = Log(stream, bar, echo)
        try:
            require_machine_code_of_this_cpu()
            yield report
        except SystemExit as leaving:
            if leaving.code == PREEMPTED:
                report("SIGTERM: stopped after a checkpoint; the next start continues there")
            raise
        except (ValueError, OSError) as error:
            with contextlib.suppress(OSError):  # it may be the log that cannot be written
                report.detail(traceback.format_exc())
            print(f"fedscan: error: {error} (details: {log})", file=sys.stderr)
            raise SystemExit(1) from None
        except BaseException:
            report.detail(traceback.format_exc())
            raise


def refuse_future(files: Iterable[str]) -> None:
    """Stop before any work if an input is dated later than now.

    Snakemake takes a new output that is older than its input for a failure, when the job is done,
    and deletes it together with the rows that were there before.

    Args:
        files: the job's inputs.

    Raises:
        ValueError: names the file.
    """
    now = time.time()
    for file in files:
        if os.stat(file).st_mtime > now:
            raise ValueError(
                f"{file} is dated in the future: a clock is wrong, or was; set it right, then"
                " 'touch' the file"
            )


def _opened(log: str | os.PathLike[str]) -> TextIO:
    try:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what a full disk does not take would be written once more when it is closed.
        raw = open(log, "wb", buffering=0)  # noqa: SIM115 - closed with the stream around it
        return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    except OSError as error:
        print(f"fedscan: error: the log cannot be written: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def keep_compiled_kernels() -> None:
    """Let Numba keep machine code in the user's cache, in a folder of its own per code version.

    Compiling takes seconds per kernel and shape, every job would do it anew. A folder that the
    user chose (NUMBA_CACHE_DIR) is left alone; without a writable cache every job compiles.
    """
    version = code_fingerprint("fedscan.models.selective_ssm.cpu")
    folder = user_cache_path("fedscan") / f"kernels-{version}"
    if "NUMBA_CACHE_DIR" not in os.environ:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return
        if not os.access(folder, os.W_OK):
            return
        os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # it read the environment when it was imported
        sys.modules["numba"].config.reload_config()


@contextlib.contextmanager
def _live_bar() -> Iterator[Progress | None]:
    """Yield a progress bar if stderr is a terminal that no other job draws on, else None."""
    if not sys.stderr.isatty():
        yield None
        return
    # Jobs share the terminal: the first to lock the device draws, the others only log.
    with open(os.ttyname(sys.stderr.fileno()), "w", encoding="utf-8") as terminal:
        try:
            fcntl.flock(terminal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
        )
        with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
            yield bar
