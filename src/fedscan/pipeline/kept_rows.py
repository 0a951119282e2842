"""Rows of expensive units (models to evaluate), kept one by one so that a kill loses one unit.

A unit's rows are kept from an earlier table or from the job's progress file, if they were made
under the same configuration, files and, if asked, code.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.io import atomic, parquet
from fedscan.pipeline.preemption import stop_if_asked
from fedscan.pipeline.runner import Log

UNIT = "model"
Tables = dict[str, list[dict[str, Any]]]


class RowStore:
    """Rows by unit; a unit is named in column ``model`` of all its tables."""

    def __init__(
        self, folder: Path, tables: Sequence[str], progress: Path, code_counts: bool, report: Log
    ) -> None:
        """Read what is there.

        Args:
            folder: of the tables, <folder>/<table>.parquet.
            tables: their names.
            progress: file that a killed job left, if any.
            code_counts: whether rows of other code are dropped.
            report: the job's log.
        """
        self._folder, self._tables, self._progress = folder, tables, progress
        self._keys = ("config_hash", "code_hash") if code_counts else ("config_hash",)
        self._report = report
        self._units: dict[str, Tables] = {}
        self._read_tables()
        self._read_progress()

    def kept(self, unit: str, identity: Mapping[str, str]) -> Tables | None:
        """Return a unit's rows if they are still valid."""
        found = self._units.get(unit)
        rows = [row for table in (found or {}).values() for row in table]
        if not rows or any(row[key] != identity[key] for row in rows for key in self._keys):
            return None
        return found

    def add(self, unit: str, rows: Tables) -> None:
        """Keep a unit's rows, on disk too."""
        self._units[unit] = rows
        atomic.write_text(self._progress, json.dumps(self._units))
        stop_if_asked()

    def write(self, units: Sequence[str], provenance: Mapping[str, Any]) -> None:
        """Write the tables with the rows of ``units``, in that order; drop the progress file."""
        # The first table comes last: it is the file that says a unit is there.
        for table in reversed(self._tables):
            rows = [row for unit in units for row in self._units[unit][table]]
            parquet.write(self._folder / f"{table}.parquet", table, rows, provenance)
        self._progress.unlink(missing_ok=True)

    def _read_tables(self) -> None:
        paths = [self._folder / f"{table}.parquet" for table in self._tables]
        if not all(path.exists() for path in paths):
            return
        try:
            found = [
                parquet.read(path, table).to_pylist()
                for path, table in zip(paths, self._tables, strict=True)
            ]
        except ValueError as error:
            self._report(f"earlier results are not usable and are recomputed: {error}")
            return
        for table, rows in zip(self._tables, found, strict=True):
            for row in rows:
                empty: Tables = {name: [] for name in self._tables}
                self._units.setdefault(row[UNIT], empty)[table].append(row)

    def _read_progress(self) -> None:
        if not self._progress.exists():
            return
        try:
            self._units |= json.loads(self._progress.read_text(encoding="utf-8"))
        except ValueError as error:
            self._report(f"starting over: {self._progress} is damaged ({error})")
