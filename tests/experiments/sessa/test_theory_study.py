"""The stage of claims: its tables, kept groups, the same bytes, its checks."""

import pandas as pd
import pytest

from fedscan.experiments.sessa import plan
from fedscan.experiments.sessa.theory_checks import GROUPS, theory_checks
from fedscan.experiments.sessa.theory_numbers import numbers
from fedscan.experiments.sessa.theory_study import GROUPS as STUDIED
from fedscan.experiments.sessa.theory_tables import CLAIMS, RETRIEVAL
from fedscan.io import parquet
from tests.experiments.sessa import tiny

SETTINGS = {
    "retrieval": [[0.5, 1], [0.5, 2], [0.25, 2]],
    "codes": {"theory": tiny.CODE},
    "rerun_on_code_change": True,
}


def tables(results):
    folder = results / "sessa/theory"
    return [parquet.read_frame(folder / f"{t.name}.parquet", t) for t in (CLAIMS, RETRIEVAL)]


def test_the_tables(finished):
    claims, retrieval = tables(finished)
    assert not claims["violated"].any()
    assert claims["claim"].nunique() >= 55
    assert set(claims["group"]) == set(GROUPS) == set(STUDIED)
    assert set(retrieval["level"]) == {"kernel", "weights"}
    assert (retrieval["margin"] > 0).all()
    same = retrieval["score"] - retrieval["competitors"] - retrieval["margin"]
    assert same.abs().max() < 1e-9


def test_groups_are_kept_and_the_bytes_are_the_same(copy):
    before, lines = tiny.bytes_of(copy / "sessa/theory"), []
    tiny.theory(copy, lines.append)
    assert lines == []
    assert tiny.bytes_of(copy / "sessa/theory") == before
    # Another retrieval changes one group.
    tiny.theory(copy, lines.append, theory={"retrieval": [[0.5, 1]]})
    assert [line.split(":")[0] for line in lines] == ["retrieval"]


def test_every_claim_of_the_page_has_a_number(finished):
    found = list(numbers(*tables(finished)))
    claims = {n.row for n in found if n.table == "claims"}
    assert claims == set().union(*GROUPS.values())
    ratios = {n.row: n.value for n in found if n.quantity == "largest_ratio"}
    assert ratios.pop("mamba2_decay") != ratios["decay"]  # it has none
    assert all(value <= 1 + 1e-9 for value in ratios.values())
    instances = {n.row: n.value for n in found if n.quantity == "instances"}
    assert sum(instances.values()) == len(tables(finished)[0])
    spreads = [n.value for n in found if n.quantity == "spread_over_horizons"]
    assert len(spreads) == 3
    assert all(1 <= value < 3 for value in spreads)
    nus = [n.value for n in found if n.quantity == "nu"]
    assert nus == [-0.5, 0.0, 0.5]
    exponents = {n.row: n.value for n in found if n.quantity == "exponent"}
    assert exponents["beta 0.5, 2 macro-layer(s)"] == pytest.approx(0, abs=0.12)
    assert exponents["beta 0.25, 2 macro-layer(s)"] == pytest.approx(0.5, abs=0.12)


def outcomes(results, settings=SETTINGS):
    return {check.check: check.passed for check in theory_checks(settings, results)}


def test_checks_pass(finished):
    assert all(outcomes(finished).values())


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [
        ("violated", True, "no claim is violated"),
        ("measured", float("inf"), "claims are of finite numbers"),
        ("group", "depth", "every claim"),
        ("code_hash", "older", "sessa results of the present code"),
    ],
)
def test_checks_fail(copy, column, value, name):
    path = copy / "sessa/theory/sessa_claims.parquet"
    rows = parquet.read_frame(path, CLAIMS)
    chosen = rows.index[rows["applicable"]][:1] if column != "group" else rows.index
    rows.loc[chosen, column] = value
    parquet.write(path, CLAIMS, rows, {})
    assert outcomes(copy)[name] is False


def test_one_missing_claim_fails(copy):
    path = copy / "sessa/theory/sessa_claims.parquet"
    rows = parquet.read_frame(path, CLAIMS)
    parquet.write(path, CLAIMS, pd.DataFrame(rows[rows["claim"] != "readout"]), {})
    (found,) = (c for c in theory_checks(SETTINGS, copy) if c.check == "every claim")
    assert not found.passed
    assert found.detail.endswith("missing: readout")


def test_a_missing_construction_fails(copy):
    path = copy / "sessa/theory/sessa_retrieval.parquet"
    rows = parquet.read_frame(path, RETRIEVAL)
    parquet.write(path, RETRIEVAL, pd.DataFrame(rows[rows["layers"] == 1]), {})
    assert outcomes(copy)["margins of retrieval are positive"] is False


def test_settings_are_what_the_stage_uses():
    found = plan.sessa_theory(tiny.config())
    assert set(found) == {"seed", "logit_spreads", "gains", "retrieval", "rerun_on_code_change"}
