"""What a measurement was made on, and where it is kept."""

import json
import os
import platform
from pathlib import Path

from fedscan.io.provenance import versions

RESULTS = Path(__file__).parent / "results"


def record(name, rows, threads):
    """Print rows of (quantity, value, unit) and write them with the environment."""
    for row in rows:
        show(row)
    write(RESULTS, name, rows, threads, {})


def show(row):
    """Print a row of (quantity, value, unit)."""
    quantity, value, unit = row
    text = f"{value:12.5g}" if isinstance(value, float | int) else str(value)
    print(f"{quantity:66s} {text} {unit}", flush=True)


def write(folder, name, rows, threads, facts):
    """Write rows with the environment and further facts."""
    facts = {
        "rows": [dict(zip(("quantity", "value", "unit"), row, strict=True)) for row in rows],
        "threads": threads,
        "cores": os.cpu_count(),
        "processor": processor(),
        "system": platform.system(),
        "versions": versions(),
        **facts,
    }
    Path(folder).mkdir(exist_ok=True, parents=True)
    Path(folder, f"{name}.json").write_text(json.dumps(facts, indent=2) + "\n")


def processor():
    """Name of the processor, with those of its vector instructions that matter here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    flags = next((line for line in lines if line.startswith("flags")), "")
    simd = [flag for flag in ("avx2", "avx512f", "avx512_bf16") if flag in flags.split()]
    return f"{names[0] if names else 'unknown'} ({', '.join(simd)})"
