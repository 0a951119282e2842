"""Stage ``check``: the workflow's own results against what must hold; a table of outcomes."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from fedscan.experiments.bounds.checks import Check, synthetic_checks
from fedscan.experiments.comparison import grid
from fedscan.experiments.merging.checks import merging_checks
from fedscan.io import parquet
from fedscan.io.provenance import config_hash, versions
from fedscan.pipeline.runner import Log


def run(settings: Mapping[str, Any], results: str, output: str, report: Log) -> None:
    """Check partitions, runs and bounds, and write the outcomes.

    Args:
        settings: ``studies``, sections ``training`` and ``model``, ``training_code`` (fingerprint
            per algorithm), ``rerun_on_code_change``: if false, rows of older code are listed, not
            refused; ``synthetic``, see ``check_synthetic``; and ``merging``, see ``check_merging``.
        results: folder of all results.
        output: receives the table.
        report: the job's log.

    Raises:
        ValueError: if a check failed; the table is then at ``output`` with suffix .failed.parquet.
    """
    runs = grid.runs(settings["studies"])
    checks = [
        *_partitions(runs, results),
        *_runs(runs, results, settings),
        *synthetic_checks(settings["synthetic"], results),
        *merging_checks(settings["merging"], results),
    ]
    failed = [check for check in checks if not check.passed]
    target = output.replace(".parquet", ".failed.parquet") if failed else output
    rows = [check._asdict() for check in checks]
    parquet.write(target, "checks", rows, {"settings": settings, "versions": versions()})
    for check in checks:
        report(
            f"{'ok  ' if check.passed else 'FAIL'} {check.check}: {check.subject}: {check.detail}"
        )
    if failed:
        first = failed[0]
        raise ValueError(
            f"{len(failed)} of {len(checks)} checks failed; first: {first.check}: {first.subject}:"
            f" {first.detail}; all in {target}"
        )


def _partitions(runs: list[grid.Run], results: str) -> Iterator[Check]:
    paths = {grid.partition_path(r.job.setting, r.job.beta, r.job.clients) for r in runs}
    for path in sorted(paths):
        folder = os.path.join(results, "partition", path)
        table = parquet.read_frame(os.path.join(folder, "partition.parquet"), "partition")
        for split in ("train", "validation"):
            held = _held(os.path.join(folder, f"{split}.parquet"))
            shared = int(held.duplicated(["domain", "sequence"]).sum())
            detail = f"{len(held)} sequences, {shared} held by two clients"
            yield Check("clients share no sequence", f"{path}/{split}", not shared, detail)
            wanted = table[table["split"] == split].set_index(["client", "domain"])["count"]
            found = held.groupby(["client", "domain"]).size()
            same = found.reindex(wanted.index, fill_value=0).tolist() == wanted.tolist()
            detail = f"{len(held)} sequences, partition table says {wanted.sum()}"
            yield Check("counts match the partition table", f"{path}/{split}", same, detail)


def _held(path: str) -> pd.DataFrame:
    return parquet.read(path, "sequences").drop_columns(["input_ids"]).to_pandas()


def _runs(runs: list[grid.Run], results: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    for path, members in grid.jobs(runs).items():
        folder = os.path.join(results, "federated", path)
        table, rounds, clients = (
            parquet.read_frame(os.path.join(folder, f"{name}.parquet"), name)
            for name in ("runs", "rounds", "clients")
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
        code = settings["training_code"][members[0].job.algorithm]
        old = sorted(set(table["value"][table["code_hash"] != code]))
        detail = f"values of other code: {', '.join(old) or 'none'}"
        accepted = not old or not settings["rerun_on_code_change"]
        yield Check("results of the present code", path, accepted, detail)


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
