"""Checks of training runs: complete, in order, of the present configuration and code."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.tables import CLIENTS, ROUNDS, RUNS
from fedscan.io import parquet
from fedscan.io.provenance import config_hash
from fedscan.pipeline.checks import Check, present_code


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of every training job.

    Args:
        settings: ``studies``, sections ``training`` and ``model``, ``training_code`` (fingerprint
            per algorithm and kinds of layers), ``rerun_on_code_change``: if false, rows of older
            code are listed, not refused.
        results: folder of all results.

    Yields:
        Six checks per job.
    """
    for path, members in grid.jobs(grid.runs(settings["studies"])).items():
        folder = results / "federated" / path
        table, rounds, clients = (
            parquet.read_frame(folder / f"{one.name}.parquet", one)
            for one in (RUNS, ROUNDS, CLIENTS)
        )
        values = [run.value for run in members]
        detail = f"{len(table)} rows for {len(values)} values"
        yield Check("one row per value", path, table["value"].tolist() == values, detail)
        numbers = rounds.groupby("value")["round"].apply(list)
        steady = all(found == list(range(1, len(found) + 1)) for found in numbers)
        yield Check("rounds count up from 1", path, steady, f"{len(rounds)} rounds")
        per_round = clients.groupby(["value", "round"]).size()
        full = len(per_round) == len(rounds) and (per_round == members[0].job.clients).all()
        yield Check("every client in every round", path, bool(full), f"{len(clients)} rows")
        counted = table.set_index("value")["rounds"].to_dict()
        agree = all(counted[value] == len(numbers.get(value, [])) for value in counted)
        yield Check("recorded rounds are there", path, agree, f"{counted}")
        yield _configuration(path, members, table, settings)
        code = settings["training_code"][members[0].job.algorithm][grid.kinds_name(members)]
        old = sorted(set(table["value"][table["code_hash"] != code]))
        detail = f"values of other code: {', '.join(old) or 'none'}"
        yield present_code(path, len(old), detail, settings["rerun_on_code_change"])


def _configuration(
    path: str, members: list[grid.Run], table: pd.DataFrame, settings: Mapping[str, Any]
) -> Check:
    # Snakemake trusts files it has no record of, such as results copied from another project.
    wanted = {
        run.value: config_hash(
            run.job._asdict(), dict(run.hyperparameters), settings["training"], settings["model"]
        )
        for run in members
    }
    found = table.set_index("value")["config_hash"].to_dict()
    other = sorted(value for value in found if found[value] != wanted.get(value))
    detail = f"values of another configuration: {', '.join(other) or 'none'}"
    if other:
        detail += "; snakemake --forcerun federated trains them again"
    return Check("results of the present configuration", path, not other, detail)
