"""Snakemake on the paper's grid: plan a fresh run, run every job as a touch, plan again.

In a copy of the project whose rules only touch their outputs, so that what is measured is the
workflow: its graph, its keys, its records. Beside it, in turn, the plainest workflow that would do
the same training: one job and one output per run, constant parameters, nothing else. CPU seconds
count (the least of three: other work on the machine only adds); wall seconds depend on that work.
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
REPEATS = 3
# About as many runs as the paper's grid has, and the partitions before them.
PLAIN = """
A, D, S, X = range(8), (1, 4), range(4), range(5)
E, B, H = (1, 4, 16, 64, 128), (0.1, 1), range(3)
OUTPUT = "runs/a={a}/d={d}/e={e}/b={b}/s={s}/h={h}/x={x}.parquet"


rule all:
    input:
        expand(OUTPUT, a=A, d=D, e=E, b=B, s=S, h=H, x=X),


rule partition:
    output:
        "partition/{s}_{b}.parquet",
    shell:
        "touch {output}"


rule federated:
    input:
        "partition/{s}_{b}.parquet",
    output:
        OUTPUT,
    params:
        lr=0.001,
        rounds=100,
        batch_size=8,
        clients=4,
    shell:
        "touch {output}"
"""
SCRIPT = re.compile(r'    script:\n        "\.\./scripts/\w+\.py"\n')


def project(folder):
    for name in ("workflow", "config"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder)
    for rules in (folder / "workflow/rules").glob("*.smk"):
        touching = SCRIPT.sub('    shell:\n        "touch {output:q}"\n', rules.read_text())
        rules.write_text(touching)


def snakemake(folder, *arguments, config=("--configfile", "config/paper.yaml")):
    """Run it; return its output, CPU seconds, wall seconds and the largest memory in MB."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", "greedy"]
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


def plan(folders):
    """Plan each in turn; return name -> (output, least CPU seconds, least wall seconds)."""
    found = {name: [] for name in folders}
    for _ in range(REPEATS):
        for name, folder in folders.items():
            config = () if name == "plain" else ("--configfile", "config/paper.yaml")
            found[name].append(snakemake(folder, "-n", "--quiet", "rules", config=config)[:3])
    return {
        name: (tries[0][0], min(t[1] for t in tries), min(t[2] for t in tries))
        for name, tries in found.items()
    }


def main():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, plain = Path(name, "project"), Path(name, "plain")
        folder.mkdir()
        plain.mkdir()
        project(folder)
        Path(plain, "Snakefile").write_text(PLAIN)
        for state in ("a fresh run", "nothing to do"):
            for which, (text, cpu, wall) in plan({"paper": folder, "plain": plain}).items():
                if state == "a fresh run":
                    jobs = int(re.search(r"^total +(\d+)$", text, flags=re.MULTILINE)[1])
                    rows.append((f"{which}: jobs", jobs, "jobs"))
                elif "Nothing to be done" not in text:
                    raise SystemExit(f"something would run again:\n{text[-2000:]}")
                rows += [
                    (f"{which}: plan {state} (-n)", cpu, "CPU s"),
                    (f"{which}: plan {state} (-n), wall", wall, "s"),
                ]
            if state == "a fresh run":
                _, cpu, wall, memory = snakemake(folder, "--quiet", "all")
                rows += [
                    ("paper: memory", memory, "MB"),
                    ("paper: run every job as a touch", cpu, "CPU s"),
                    ("paper: run every job as a touch, wall", wall, "s"),
                ]
                snakemake(plain, "--quiet", "all", config=())
    record("dag", rows, 2)


if __name__ == "__main__":
    main()
