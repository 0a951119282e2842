"""Checks of the room: all pass on whole results, each fails on its damage."""

import pandas as pd
import pytest

from fedscan.experiments.sessa import plan, tables
from fedscan.experiments.sessa.checks import checks
from fedscan.io import parquet
from tests.experiments.sessa import tiny


def settings(**changes):
    found = plan.checked(tiny.config(**changes))
    codes = dict.fromkeys(found["codes"], tiny.CODE)
    federated = dict.fromkeys(found["federated_codes"], tiny.CODE)
    return {**found, "codes": codes, "federated_codes": federated}


def failed(results, **changes):
    return {c.check for c in checks(settings(**changes), results) if not c.passed}


def test_all_pass(finished):
    found = list(checks(settings(), finished))
    assert [c for c in found if not c.passed] == []
    assert len({c.check for c in found}) >= 20


def changed(path, table, change):
    rows = parquet.read_frame(path, table)
    parquet.write(path, table, change(rows), {})


def column(name, value, where=slice(0, 1)):
    def change(rows):
        rows.loc[rows.index[where], name] = value
        return rows

    return change


def dropped(rows):
    return pd.DataFrame(rows.iloc[:-1])


TRAINING = "training/task=mqar/mixer=sessa"
DIAGNOSTICS = "diagnostics/task=mqar/mixer=sessa"
FEDERATED = "federated/task=soup/mixer=sessa/algorithm=fedavg"


@pytest.mark.parametrize(
    ("folder", "table", "change", "check"),
    [
        ("data/task=mqar", tables.EXAMPLES, dropped, "every sequence of a task"),
        ("data/task=mqar", tables.EXAMPLES, column("lag_max", 999), "lags lie in their range"),
        ("data/task=soup", tables.EXAMPLES, column("label", 3), "classes are balanced"),
        (TRAINING, tables.RUNS, dropped, "every run of a mixer"),
        (TRAINING, tables.RUNS, column("steps", 5), "runs took all their steps"),
        (TRAINING, tables.RUNS, column("model_sha256", "x"), "models are those of the table"),
        (TRAINING, tables.RUNS, column("code_hash", "x"), "sessa results of the present code"),
        (TRAINING, tables.CURVES, column("step", 9), "steps count up from 1"),
        (DIAGNOSTICS, tables.DIAGNOSED, dropped, "every seed's model is diagnosed"),
        (DIAGNOSTICS, tables.JACOBIANS, column("violated", True), "no decay bound is violated"),
        (DIAGNOSTICS, tables.JACOBIANS, column("norm", float("nan")), "profiles are finite"),
        (FEDERATED, tables.FEDERATED_RUNS, dropped, "every federated run of a mixer"),
        (FEDERATED, tables.FEDERATED_ROUNDS, dropped, "recorded rounds are there"),
        (FEDERATED, tables.FEDERATED_CLIENTS, dropped, "every client holds sequences"),
    ],
)
def test_damage_is_found(copy, folder, table, change, check):
    changed(copy / "sessa" / folder / f"{table.name}.parquet", table, change)
    assert check in failed(copy)


def test_an_answer_that_does_not_follow(copy):
    def change(rows):
        first = rows.iloc[0]
        rows.at[0, "answers"] = [a + 1 for a in first["answers"]]
        return rows

    path = copy / "sessa/data/task=mqar/sessa_examples.parquet"
    changed(path, tables.EXAMPLES, change)
    assert "what recall asks for follows" in failed(copy)


def test_an_answer_outside_its_sequence(copy):
    path = copy / "sessa/data/task=soup/sessa_examples.parquet"

    def change(rows):
        rows.at[0, "places"] = [999]
        return rows

    changed(path, tables.EXAMPLES, change)
    assert "every sequence asks, inside itself" in failed(copy)


def test_what_is_switched_off_is_not_checked(finished):
    found = settings()
    found = {**found, "federated": None}
    assert not any("federated" in c.subject for c in checks(found, finished))
