"""Results of all jobs as one table, and which runs of the configuration are not there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.tables import RUNS
from fedscan.io import parquet
from fedscan.io.provenance import config_hash
from fedscan.io.tables import Table

RUN_KEY = [*grid.Job._fields, "value"]


def collect(runs: Sequence[grid.Run], federated: Path, table: Table) -> pd.DataFrame:
    """Join a table of all jobs, with the keys of their paths as columns.

    Args:
        runs: runs of the configuration; jobs that have not ended are passed over.
        federated: folder of the training jobs.
        table: one of ``JOB_TABLES``.

    Returns:
        Rows of the values that the configuration asks for.

    Raises:
        ValueError: if a table is damaged or missing beside the others, or no job has ended.
    """
    frames = []
    for path, members in ended(runs, federated).items():
        file = federated / path / f"{table.name}.parquet"
        frame = parquet.read_frame(file, table)
        if table is RUNS and (twice := frame["value"][frame["value"].duplicated()]).size:
            raise ValueError(f"{file}: {twice.iloc[0]!r} has two rows; delete it to train it again")
        frame = frame[frame["value"].isin([run.value for run in members])]
        job = members[0].job._asdict()
        frames.append(frame.assign(**job)[[*job, *frame.columns]])
    return pd.concat(frames, ignore_index=True)


def ended(runs: Sequence[grid.Run], federated: Path) -> dict[str, list[grid.Run]]:
    """Return the jobs that have written their tables.

    Args:
        runs: runs of the configuration.
        federated: folder of the training jobs.

    Returns:
        Path of the job -> its runs, where ``runs.parquet`` is there: it is written last.

    Raises:
        ValueError: if there is no such job.
    """
    jobs = grid.jobs(runs)
    found = {p: jobs[p] for p in jobs if (federated / p / "runs.parquet").exists()}
    if not found:
        raise ValueError(f"{federated}: no job of this configuration has ended yet")
    return found


def present(
    runs: Sequence[grid.Run],
    found: pd.DataFrame,
    training: Mapping[str, Any],
    model: Mapping[str, Any],
) -> pd.Series:
    """Tell which collected runs were made under this configuration.

    Args:
        runs: runs of the configuration.
        found: collected table ``runs``.
        training: section ``training``.
        model: section ``model``.

    Returns:
        Per row of ``found``, whether its configuration is the present one.
    """
    wanted = {
        (*run.job, run.value): config_hash(
            run.job._asdict(), dict(run.hyperparameters), training, model
        )
        for run in runs
    }
    rows = found[[*RUN_KEY, "config_hash"]].itertuples(index=False)
    return pd.Series([wanted[tuple(row[:-1])] == row[-1] for row in rows], found.index, bool)


def asked_for(runs: Sequence[grid.Run], found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Give every study a row for each of its runs.

    Args:
        runs: runs of the configuration.
        found: collected table ``runs``.

    Returns:
        Study -> rows of ``found``; runs that are not there have status 'missing'.
    """
    rows = [{**run.job._asdict(), "value": run.value, "studies": run.studies} for run in runs]
    wanted = pd.DataFrame(rows).explode("studies").rename(columns={"studies": "study"})
    joined = wanted.merge(found, on=RUN_KEY, how="left", validate="m:1")
    joined["status"] = joined["status"].fillna("missing")
    return {
        str(study): part.drop(columns="study").reset_index(drop=True)
        for study, part in joined.groupby("study", sort=True)
    }
