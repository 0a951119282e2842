"""SIGTERM: a job ends at its next checkpoint with the agreed code, and goes on from there."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from fedscan.pipeline.preemption import PREEMPTED, listening, stop_if_asked
from fedscan.pipeline.runner import job

JOB = """
import sys, time
from fedscan.pipeline.runner import job
from fedscan.pipeline.preemption import stop_if_asked
with job(sys.argv[1]) as report:
    for number in range(1000):
        report(f"checkpoint {number}")
        stop_if_asked()
        time.sleep(0.02)
"""


def start(log):
    process = subprocess.Popen([sys.executable, "-c", JOB, str(log)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (log.exists() and "checkpoint 2" in log.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_sigterm_ends_a_job_after_its_checkpoint_with_the_agreed_code(tmp_path):
    log = tmp_path / "job.log"
    process = start(log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == PREEMPTED
    lines = log.read_text().splitlines()
    assert "SIGTERM: stopped after a checkpoint" in lines[-1]
    assert "checkpoint" in lines[-2]
    assert "Traceback" not in log.read_text()
    assert process.stderr.read() == b""


def test_a_second_sigterm_ends_it_at_once(tmp_path):
    code = JOB.replace("stop_if_asked()\n", "pass\n")
    log = tmp_path / "job.log"
    process = subprocess.Popen([sys.executable, "-c", code, str(log)])
    while not (log.exists() and "checkpoint 2" in log.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM


def test_without_sigterm_nothing_stops_and_the_handler_is_put_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with job(tmp_path / "log"):
        stop_if_asked()
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_sigterm_of_an_earlier_job_does_not_stop_the_next():
    with listening():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit) as leaving:
            stop_if_asked()
    assert leaving.value.code == PREEMPTED
    with listening():
        stop_if_asked()


def test_other_threads_run_jobs_without_signals(tmp_path):
    seen = []

    def work():
        with job(tmp_path / "log"):
            stop_if_asked()
            seen.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]
