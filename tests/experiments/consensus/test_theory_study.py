"""Stage consensus_theory: rows, kept instances, bad sizes, and what the checks refuse."""

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.consensus import theory_study
from fedscan.experiments.consensus.instances import instance
from fedscan.experiments.consensus.theory_checks import theory_checks
from fedscan.experiments.consensus.theory_numbers import numbers
from fedscan.experiments.consensus.theory_tables import INSTANCES
from fedscan.io import parquet
from tests.experiments.consensus import made
from tests.experiments.consensus.made import THEORY, study


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return study(tmp_path_factory.mktemp("results"))


def test_every_kind_with_and_without_silu(done):
    rows = pd.read_parquet(done)
    assert len(rows) == 4 * 2
    assert rows.groupby("kernel")["silu"].nunique().eq(2).all()
    plain, gated = rows[~rows["silu"]], rows[rows["silu"]]
    # Same weights, same starts; nothing is compared with a proof.
    for name in ("gamma", "lambda_max", "alpha", "c_eff"):
        np.testing.assert_array_equal(plain[name], gated[name])
    assert gated.filter(like="slack_").isna().all(axis=None)
    assert gated["rate_certified"].isna().all()
    assert not rows.filter(like="violations_").any(axis=None)
    definite = plain[plain["kernel"] == "definite"]
    assert definite["c_star"].iloc[0] == pytest.approx(0.3, abs=1e-13)
    indefinite = plain[plain["kernel"] == "indefinite"]
    assert indefinite["c_eff"].isna().all()
    assert indefinite["undefined"].str.contains("not positive").all()


def test_a_new_instance_computes_only_itself(tmp_path, monkeypatch):
    first = study(tmp_path, kernels=["definite"])
    calls, real = [], theory_study.instance_row

    def counted(one):
        calls.append((one.index, one.silu))
        return real(one)

    monkeypatch.setattr(theory_study, "instance_row", counted)
    study(tmp_path, kernels=["definite"], instances=2)
    assert calls == [(1, False), (1, True)]
    whole = first.read_bytes()
    first.unlink()
    study(tmp_path, kernels=["definite"], instances=2)
    assert first.read_bytes() == whole


def test_too_few_states_are_no_error_but_have_a_reason(tmp_path):
    rows = pd.read_parquet(study(tmp_path, kernels=["definite"], m=2))
    assert rows["c_star"].isna().all()
    assert (rows["undefined"] == "m = 2 is below n = 3: S_BC has no full rank").all()


def test_without_a_gap_there_is_a_reason_and_no_number(tmp_path, monkeypatch):
    from fedscan.experiments.consensus import theory_rows

    def equal(*arguments):
        one = instance(*arguments)
        return one._replace(alpha=np.full_like(one.alpha, 0.1), b_delta=np.zeros_like(one.b_delta))

    monkeypatch.setattr(theory_rows, "instance", equal)
    rows = pd.read_parquet(study(tmp_path, kernels=["isotropic"]))
    assert (rows["gamma"] <= 0).all()
    assert rows[["c_star", "c_eff", "excitation_rho", "rate_certified"]].isna().all(axis=None)
    assert rows["undefined"].str.contains("no certified spectral gap").all()
    assert not rows.filter(like="violations_").any(axis=None)


def test_a_flow_that_leaves_the_numbers_is_a_failed_row(tmp_path, monkeypatch):
    from fedscan.experiments.consensus import theory_rows

    real = theory_rows.integrate

    def broken(start, *arguments):
        return real(start * np.inf, *arguments)

    monkeypatch.setattr(theory_rows, "certificate_violations", lambda *_: 0)
    monkeypatch.setattr(theory_rows, "integrate", broken)
    with np.errstate(all="ignore"):
        rows = pd.read_parquet(study(tmp_path, kernels=["isotropic"]))
    assert (rows["status"] == "failed").all()
    assert (rows["failure"] == "the flow became non-finite").all()
    assert (rows["reached"] == 0).all()


def outcomes(results, **changes):
    settings = {"theory": THEORY, "codes": {"theory": made.CODE["code"]}}
    settings |= {"rerun_on_code_change": True} | changes
    return {check.check: (check.passed, check.detail) for check in theory_checks(settings, results)}


def test_the_checks_pass_and_each_can_fail(done, tmp_path):
    results = done.parents[2]
    assert all(passed for passed, _ in outcomes(results).values())
    assert not outcomes(results, theory=THEORY | {"instances": 2})["every random instance"][0]
    old = outcomes(results, codes={"theory": "other"})
    assert not old["consensus results of the present code"][0]
    rows = parquet.read_frame(done, INSTANCES)
    path = tmp_path / "consensus/theory/consensus_instances.parquet"
    parquet.write(path, INSTANCES, rows.assign(violations_sector=[0] * 7 + [1]), {})
    passed, detail = outcomes(tmp_path)["no statement on consensus is violated"]
    assert not passed
    assert detail == "violations_sector: 1"
    parquet.write(path, INSTANCES, rows.assign(status="failed"), {})
    assert not outcomes(tmp_path)["random instances stay finite"][0]


def test_the_numbers_say_what_is_proved(done):
    rows = parquet.read_frame(done, INSTANCES)
    found = {(n.row, n.quantity): n for n in numbers(rows)}
    assert found["definite 0.3", "share_reached"].value == pytest.approx(
        rows[(rows["kernel"] == "definite") & ~rows["silu"]]["reached"].iloc[0] / 3
    )
    assert "proves nothing" in found["definite 0.3, SiLU", "share_reached"].note
    corrected, printed = (found["definite 0.3", name].value for name in ("c_eff", "c_eff_printed"))
    assert corrected >= printed
    assert found["all", "violations_theorem"].value == 0
    assert found["all", "slack_gap"].value > 0
