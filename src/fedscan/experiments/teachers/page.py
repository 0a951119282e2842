"""What the page says of the teachers: their sizes and stability limits."""

from collections.abc import Mapping
from typing import Any

from fedscan.report.page import Facts


def configured(config: Mapping[str, Any]) -> Facts:
    """Return the facts of the configuration that a reader wants first.

    Args:
        config: the whole configuration.
    """
    synthetic = config["synthetic"]
    text = f"D {synthetic['d_input']}, N {synthetic['d_state']}, ρ {synthetic['rhos']}"
    return [("synthetic study", text)]
