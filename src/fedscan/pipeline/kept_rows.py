"""Rows that a job keeps: from its earlier tables, and from before it was killed.

A job computes units (a hyperparameter value, a learner, a model) that are named by key columns. A
unit's rows are kept if they were made under the same configuration, data and, if asked, code.
"""

import functools
import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedscan.io import atomic, parquet
from fedscan.io.provenance import digest
from fedscan.io.tables import Table
from fedscan.pipeline.stage import Log

# Table's name -> rows.
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Unit = tuple[Any, ...]
# Rows are read when they are asked for: thousands of units would fill the memory.
Reader = Callable[[], Rows]
CODE = "code_hash"
# Rows that are Python objects at one time when a table is written.
AT_ONCE = 20_000


def always(_rows: Rows) -> bool:
    """Keep whatever the hashes allow."""
    return True


class KeptRows:
    """Rows by unit."""

    def __init__(
        self,
        folder: Path,
        tables: Sequence[Table],
        unit: Sequence[str],
        code_counts: bool,
        report: Log,
        holds: Callable[[Rows], bool] = always,
        progress: Path | None = None,
    ) -> None:
        """Read what is there.

        Args:
            folder: of the tables, <folder>/<name>.parquet.
            tables: the one that says that a unit is there comes first; it is written last. A table
                without the key columns is not read back: ``holds`` must refuse units that have rows
                there.
            unit: key columns.
            code_counts: whether rows of other code are dropped.
            report: the job's log.
            holds: what else must be true of a unit's rows.
            progress: folder that ``put`` keeps rows in while the job runs, a file per unit; None:
                the stage has checkpoints of its own.
        """
        self._folder, self._tables, self._unit = folder, tables, tuple(unit)
        self._code_counts, self._report = code_counts, report
        self._holds, self._progress = holds, progress
        self._units: dict[Unit, Reader] = self._from_tables() | self._from_progress()

    def get(self, unit: Unit, identity: Mapping[str, str]) -> Rows | None:
        """Return a unit's rows if they are still valid.

        Args:
            unit: values of the key columns.
            identity: hash columns that must match; ``code_hash`` only if code counts.
        """
        reader = self._units.get(unit)
        found = None if reader is None else reader()
        if found is None or not self._holds(found):
            return None
        wanted = {k: v for k, v in identity.items() if k != CODE or self._code_counts}
        # Hashes stand in some of the tables, in each of their rows.
        hashed = [row for rows in found.values() for row in rows if CODE in row]
        same = hashed and all(row[k] == v for row in hashed for k, v in wanted.items())
        return found if same else None

    def put(self, unit: Unit, rows: Rows) -> None:
        """Keep a unit's rows, on disk too if there is a folder of progress.

        Args:
            unit: values of the key columns.
            rows: by table's name.
        """
        self._units[unit] = lambda: rows
        if self._progress is not None:
            # A file per unit: one growing file would be written again for every one of thousands.
            file = self._progress / f"{digest(list(unit))}.json"
            atomic.write_text(file, json.dumps({"unit": list(unit), "rows": dict(rows)}))
            self._units[unit] = functools.partial(_kept_file, file)

    def write(self, units: Iterable[Unit], provenance: Mapping[str, Any]) -> None:
        """Write the tables; drop the folder of progress.

        Args:
            units: in the order of the rows.
            provenance: kept in every file.
        """
        parts: dict[str, list[pa.Table]] = {table.name: [] for table in self._tables}
        waiting: dict[str, list[dict[str, Any]]] = {table.name: [] for table in self._tables}
        for unit in units:
            rows = self._units[unit]()
            for table in self._tables:
                rest = waiting[table.name]
                rest += [dict(row) for row in rows[table.name]]
                if len(rest) >= AT_ONCE:
                    parts[table.name].append(parquet.to_arrow(table, rest))
                    rest.clear()
        # The first table comes last: it is the file that says that a unit is there.
        for table in reversed(self._tables):
            whole = [*parts[table.name], parquet.to_arrow(table, waiting[table.name])]
            path = self._folder / f"{table.name}.parquet"
            parquet.write(path, table, pa.concat_tables(whole), provenance)
        if self._progress is not None:
            shutil.rmtree(self._progress, ignore_errors=True)

    def _from_tables(self) -> dict[Unit, Reader]:
        keyed = [t for t in self._tables if set(self._unit) <= {c.name for c in t.columns}]
        paths = [self._folder / f"{table.name}.parquet" for table in keyed]
        if not all(path.exists() for path in paths):
            return {}
        try:
            found = [parquet.read(path, table) for path, table in zip(paths, keyed, strict=True)]
        except ValueError as error:
            self._report(f"earlier results are not usable and are recomputed: {error}")
            return {}
        units: dict[Unit, dict[str, list[pa.Table]]] = {}
        for table, rows in zip(keyed, found, strict=True):
            keys = zip(*(rows.column(name).to_pylist() for name in self._unit), strict=True)
            first = 0
            for key, run in itertools.groupby(keys):
                count = sum(1 for _ in run)
                empty: dict[str, list[pa.Table]] = {t.name: [] for t in self._tables}
                units.setdefault(key, empty)[table.name].append(rows.slice(first, count))
                first += count
        return {key: functools.partial(_sliced, slices) for key, slices in units.items()}

    def _from_progress(self) -> dict[Unit, Reader]:
        if self._progress is None:
            return {}
        # An earlier version kept all units in one file, <progress>.json.
        for file in (self._progress, self._progress.with_name(f"{self._progress.name}.json")):
            if file.is_file():
                self._report(f"starting over: {file} is an earlier version's; removed")
                file.unlink()
        found: dict[Unit, Reader] = {}
        for file in sorted(self._progress.glob("[!.]*.json")):
            try:
                kept = json.loads(file.read_text(encoding="utf-8"))
                unit, _ = tuple(kept["unit"]), dict(kept["rows"])
                found[unit] = functools.partial(_kept_file, file)
            except (ValueError, TypeError, KeyError) as error:
                self._report(f"computed again: {file} is damaged ({error})")
        return found


def _kept_file(file: Path) -> Rows:
    rows: Rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def _sliced(slices: Mapping[str, Sequence[pa.Table]]) -> Rows:
    return {
        name: [row for part in parts for row in part.to_pylist()] for name, parts in slices.items()
    }
