"""Settings of Numba that would change results, wherever they come from."""

import os
import sys
from pathlib import Path

import yaml

# Other instructions round differently; without compiling the kernels do not run at all.
SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX", "NUMBA_DISABLE_JIT")
# Read by Numba in the folder of work.
FILE = ".numba_config.yaml"


def require_machine_code_of_this_cpu() -> None:
    """Refuse settings under which a job that uses Numba would not give the promised bytes.

    Raises:
        ValueError: names the setting and where it is made.
    """
    if "numba" not in sys.modules:
        return
    found = dict.fromkeys((name for name in SETTINGS if name in os.environ), "the environment")
    if Path(FILE).is_file():
        written = yaml.safe_load(Path(FILE).read_text(encoding="utf-8")) or {}
        keys = {f"NUMBA_{key}".upper() for key in written}
        found |= dict.fromkeys((name for name in SETTINGS if name in keys), FILE)
    for name, place in found.items():
        raise ValueError(f"{name} is set in {place} and changes results; unset it")
