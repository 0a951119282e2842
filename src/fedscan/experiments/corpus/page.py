"""What the page says of the corpus: documents of equal text."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.report.page import Facts, TableView


def found(_config: Mapping[str, Any], results: Path) -> tuple[Facts, Sequence[TableView]]:
    """Return what is known of copies; nothing, if the tokens are not there.

    Args:
        results: folder of all results.
    """
    manifest = results / "tokens/manifest.json"
    if not manifest.exists():
        return [], []
    counted = json.loads(manifest.read_text(encoding="utf-8")).get("duplicates")
    if counted is None:  # made by an earlier version
        return [], []
    within, across = sum(counted["within"].values()), sum(counted["across"].values())
    done = {"drop": "dropped", "keep": "kept: training and validation text overlap"}
    what = done[counted["rule"]] if within + across else "none to drop or keep"
    text = f"{within} within a domain, {across} across domains; {what}"
    return [("copies of documents", text)], []
