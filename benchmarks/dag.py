"""Snakemake on the paper's grid: plan a fresh run, run every job as a touch, plan again.

In a copy of the project whose rules only touch their outputs, so that what is measured is the
workflow: its graph, its keys, its records. CPU seconds count; wall seconds depend on the machine's
other work.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environment import record

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = re.compile(r'    script:\n        "\.\./scripts/\w+\.py"\n')


def project(folder):
    for name in ("workflow", "config"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder)
    for rules in (folder / "workflow/rules").glob("*.smk"):
        touching = SCRIPT.sub('    shell:\n        "touch {output:q}"\n', rules.read_text())
        rules.write_text(touching)


def snakemake(folder, *arguments):
    """Run it; return its output, CPU seconds, wall seconds and the largest memory in MB."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", "greedy"]
    config = ["--configfile", "config/paper.yaml"]
    done = subprocess.run(
        [*command, *arguments, *config],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-4000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout + done.stderr, cpu, wall, after.ru_maxrss / 1024


def main():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "project")
        folder.mkdir()
        project(folder)
        text, cpu, wall, memory = snakemake(folder, "-n", "--quiet", "rules")
        jobs = int(re.search(r"^total +(\d+)$", text, flags=re.MULTILINE)[1])
        rows += [
            ("jobs of config/paper.yaml", jobs, "jobs"),
            ("plan a fresh run (-n)", cpu, "CPU s"),
            ("plan a fresh run (-n), wall", wall, "s"),
            ("plan a fresh run (-n), per job", 1000 * cpu / jobs, "CPU ms"),
            ("memory", memory, "MB"),
        ]
        _, cpu, wall, _ = snakemake(folder, "--quiet", "all")
        rows += [
            ("run every job as a touch, per job", 1000 * cpu / jobs, "CPU ms"),
            ("run every job as a touch, wall", wall, "s"),
        ]
        text, cpu, wall, _ = snakemake(folder, "-n", "--quiet", "rules")
        if "Nothing to be done" not in text:
            raise SystemExit(f"something would run again:\n{text[-2000:]}")
        rows += [
            ("plan again, nothing to do (-n)", cpu, "CPU s"),
            ("plan again, nothing to do (-n), wall", wall, "s"),
            ("plan again, nothing to do (-n), per job", 1000 * cpu / jobs, "CPU ms"),
        ]
    record("dag", rows, 2)


if __name__ == "__main__":
    main()
