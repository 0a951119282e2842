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
    assert set(claims["group"]) == GROUPS == set(STUDIED)
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
    assert {
        "nilpotency", "neumann_series", "paths", "row_sums", "solution", "kernel_norm", "block",
        "softmax_upper", "decay", "decay_realised", "uniform_kernel", "uniform_exponent",
        "gautschi_upper", "attention_slope", "recurrence", "failed_freeze", "invariant_rate",
        "zoh_state", "zoh_jacobian", "softmax_slope", "softmax_slope_of_one", "jacobian_identity",
        "convolution", "loop_jacobian", "block_jacobian", "attention_jacobian",
        "residual_calculus", "harmonic_kernel", "exponential_paths", "power_convolution",
        "positional_writer", "position_is_read", "rotary_selection", "mixture_error", "gelu_ramp",
        "gelu_pair", "scaffold_norm", "lag_copies", "macro_diagonal", "macro_lower",
        "margins_positive", "profile_exponent", "competitors", "weights_are_kernels",
        "margin_below_norm",
    } <= claims  # fmt: skip
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
        ("group", "depth", "every group of claims"),
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


def test_a_missing_construction_fails(copy):
    path = copy / "sessa/theory/sessa_retrieval.parquet"
    rows = parquet.read_frame(path, RETRIEVAL)
    parquet.write(path, RETRIEVAL, pd.DataFrame(rows[rows["layers"] == 1]), {})
    assert outcomes(copy)["margins of retrieval are positive"] is False


def test_settings_are_what_the_stage_uses():
    found = plan.sessa_theory(tiny.config())
    assert set(found) == {"seed", "logit_spreads", "gains", "retrieval", "rerun_on_code_change"}
