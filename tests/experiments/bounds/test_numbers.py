"""Tables of the bounds from made-up evaluations with known answers."""

import numpy as np
import pandas as pd
import pytest

from fedscan.analysis.aligned_text import numbers_text
from fedscan.analysis.intervals import median, slope, theil_sen
from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.bounds import fits as bound_fits
from fedscan.experiments.bounds import numbers as bound_tables
from fedscan.experiments.bounds.comparisons import COMPARISONS, compared
from fedscan.experiments.bounds.numbers import POINT, Evaluated, with_bounds, with_utilization
from fedscan.experiments.bounds.paper import paper_numbers
from fedscan.experiments.bounds.summary import PAPER_TABLES, PUBLISHED
from fedscan.experiments.bounds.text import bounds_text
from fedscan.models.selective_ssm.layout import BLOCKS
from fedscan.pipeline.paper import published
from fedscan.theory.constants import configured, spectral_norms
from fedscan.theory.gradient import gradient_bound

RHOS = (0.5, 0.9, 0.99)


def made_up_points():
    """Points whose bounds are powers of (1 - rho), D and N, with real factors of G."""
    rows = []
    for d in (2, 4, 8):
        for n in (2, 4):
            for rho in RHOS:
                rng = np.random.default_rng([d, n])
                layer = [rng.normal(size=s) for s in ((d, d), (n, d), (n, d), n)]
                norms = spectral_norms(*layer)
                point = configured(norms, -np.log(rho), d, n)
                found = gradient_bound(point)
                measured = d**-1.0 * (1 - rho) ** -0.5
                rows += [
                    {
                        "d_input": d, "d_state": n, "rho": rho, "seed": 0,
                        "checkpoint": checkpoint, "update": update,
                        "norm_W_C": float(norms.C), "norm_A": float(norms.A),
                        "k_delta": float(point.step), "k_b": float(found.k_b),
                        **{c.bound.name: 10.0 for c in COMPARISONS if not c.beside},
                        "G": float(found.bound), "G_tight": float(found.bound) / 10,
                        "L": (1 - rho) ** -3.5,
                        "recurrent_share": float(found.recurrent / found.bound),
                        "rho_hat": rho - 0.01, "sequences": 4,
                        "gradient_median": measured, "gradient_mean": measured,
                        "batch_gradient": measured / 2,
                        **{c.flag.name: 0 for c in compared(every=True)}, "batch_violations": 0,
                    }
                    for checkpoint, update in (("initialization", 0), ("final", 9))
                ]  # fmt: skip
    points = pd.DataFrame(rows)
    return points.assign(update=points["update"].astype("Int64"))


def made_up():
    points = made_up_points()
    gradients = (
        points[[*POINT, "gradient_median"]].loc[points.index.repeat(4)].reset_index(drop=True)
    )
    gradients["sequence"] = np.tile(np.arange(4), len(points))
    gradients["gradient_norm"] = gradients.pop("gradient_median")
    for block, share in zip(BLOCKS, (0.1, 0.2, 0.3, 0.4), strict=True):
        gradients[f"gradient_{block}"] = np.sqrt(share) * gradients["gradient_norm"]
    some = compared(every=False)
    curvature = with_bounds(points, points[POINT], every=False).assign(
        **{c.measured.name: 5.0 for c in some},
        **{c.bound.name: 20.0 for c in some if c.beside},
        **{c.flag.name: False for c in some},
    )
    curvature = curvature.assign(
        hessian_norm=(1 - points["rho"]) ** -1.0 / 10, applicable=points["rho"] < 0.9
    )
    pairs = pd.DataFrame(
        {
            "gradient_ratio": [1.0, 2.0], "L_distance": [10.0, 10.0], "bound_ratio": [1.0, 1.0],
            "L_G_distance": [2.0, 4.0], "violation_gradient": [False, True],
            "violation_bound": [False, False],
        }
    )  # fmt: skip
    return Evaluated(
        bound_fits.with_hessians(points, curvature),
        with_utilization(with_bounds(points, gradients, every=True)),
        curvature,
        pairs,
    )


def as_dict(numbers):
    return {(n.row, n.quantity): n for n in numbers}


def test_table1_counts_checks_and_what_does_not_apply():
    found = as_dict(bound_tables.table1(made_up()))
    points = len(made_up_points())
    assert found["gradient_norm<=G_SSM", "evaluations"].value == 4 * points
    assert found["finite_difference<=L_SSM_0.001", "evaluations"].value == points / 3
    assert found["finite_difference<=L_SSM_0.001", "not_applicable"].value == points * 2 / 3
    assert found["finite_difference<=L_SSM_0.001", "max_utilization"].value == 0.5
    assert found["trajectory_gradient_lipschitz<=L_SSM_R", "violations"].value == 1
    assert found["trajectory_gradient_lipschitz<=L_SSM_R", "max_utilization"].value == 0.2
    assert found["bound_variation<=L_G_R", "max_utilization"].value == 0.5
    assert found["ours: batch_gradient<=mean norm and G", "max_utilization"].value == 0.5


def test_every_comparison_is_a_row_of_table1():
    found = as_dict(bound_tables.table1(made_up()))
    assert {c.row for c in COMPARISONS} <= {row for row, _ in found}
    for comparison in COMPARISONS:
        assert found[comparison.row, "evaluations"].value > 0
        assert comparison.row.startswith("ours: ") == comparison.ours


def test_utilization_is_measured_over_bound():
    found = made_up()
    first = found.gradients.iloc[0]
    point = found.points.iloc[0]
    assert first["utilization"] == first["gradient_norm"] / point["G"]
    assert first["utilization_tight"] == pytest.approx(10 * first["utilization"])
    table = as_dict(bound_tables.table17(found))
    part = found.gradients[found.gradients["rho"] == 0.9]
    assert table["0.9", "median_util_configured"].value == part["utilization"].median()
    assert table["0.9", "cells"].value == 6
    assert table["all", "points"].value == len(found.points)
    assert table["0.9", "median_realised_rho"].value == pytest.approx(0.89)


def test_energy_shares():
    found = as_dict(bound_tables.table19(made_up()))
    shares = [found["learner_final 0.5", f"share_{b}"].value for b in BLOCKS]
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_growth_exponents_are_recovered():
    found = as_dict(bound_fits.growth(made_up().points))
    assert found["L", "exponent_in_1-rho"].value == pytest.approx(-3.5)
    assert found["gradient", "exponent_in_1-rho"].value == pytest.approx(-0.5)
    assert found["hessian", "exponent_in_1-rho"].value == pytest.approx(-1.0)
    assert found["hessian", "theil_sen_exponent"].value == pytest.approx(-1.0)


def test_dimension_exponents_are_recovered():
    found = as_dict(bound_fits.dimensions(made_up().points))
    for rho in RHOS:
        assert found[f"{rho:g} gradient D", "exponent"].value == pytest.approx(-1.0)
        assert found[f"{rho:g} gradient N", "exponent"].value == pytest.approx(0.0, abs=1e-12)
    one_size = made_up().points.query("d_state == 2")
    assert not any(row.row.endswith("N") for row in bound_fits.dimensions(one_size))


def test_attribution_adds_up():
    points = made_up_points()
    terms = bound_fits.factors(points).drop(columns="measured gradient norm")
    assert np.allclose(terms.sum(axis=1), np.log10(points["G"]))
    found = as_dict(bound_fits.attribution(points))
    for quantity in ("share_log10_G_percent", "share_log10_utilization_percent"):
        assert sum(n.value for (_, q), n in found.items() if q == quantity) == pytest.approx(100)
    memory = found["memory rho/(1-rho)^2", "range_decades"].value
    assert memory == pytest.approx(np.log10((0.99 / 0.01**2) / (0.5 / 0.5**2)))


def test_learner_table_counts_failures():
    learners = pd.DataFrame(
        {
            "rho": [0.5] * 3, "d_input": 4, "status": ["completed", "completed", "failed"],
            "test_nll": [1.0, 1.5, np.nan], "excess_nll": [0.1, 0.6, np.nan],
            "gap_recovered": [0.8, -0.2, np.nan], "rho_hat": [0.4, 0.5, np.nan],
        }
    )  # fmt: skip
    found = as_dict(bound_tables.table21(learners))
    assert found["0.5", "runs"].value == 3
    assert found["0.5", "failed_runs"].value == 1
    assert found["0.5", "fraction_below_uniform"].value == 0.5
    assert found["0.5", "median_gap_recovered"].value == pytest.approx(0.3)


def paper():
    return paper_numbers(published(PUBLISHED, PAPER_TABLES))


def test_the_papers_numbers_are_keyed_like_ours():
    numbers = paper()
    assert numbers["table1", "gradient_norm<=G_SSM_tight", "max_utilization"] == 0.0083
    assert numbers["table17", "0.3", "median_util_configured"] == 2.0e-6
    assert numbers["table17", "all", "points"] == 1296
    assert numbers["table18", "learner_initialization", "median_G_SSM"] == 110_000
    assert numbers["table19", "learner_final 0.999", "share_A"] == 0.852
    assert numbers["table20", "0.9 G_tight N", "exponent"] == 1.55
    assert numbers["table22", "dimension N*D", "share_log10_G_percent"] == 7
    # Every row of ours that the paper has finds its number under the same key.
    found = made_up()
    ours = [
        *bound_tables.table1(found), *bound_tables.table17(found), *bound_tables.table18(found),
        *bound_tables.table19(found), *bound_fits.dimensions(found.points),
        *bound_fits.attribution(found.points), *bound_fits.growth(found.points),
    ]  # fmt: skip
    keys = {(n.table, n.row, n.quantity) for n in ours}
    assert {k for k in numbers if k[0] == "table22"} <= keys
    assert {k for k in numbers if k[0] == "figure2b"} <= keys
    assert {k for k in numbers if k[0] == "table1"} <= keys
    assert {k for k in numbers if k[0] == "table17" and k[1] == "0.9"} <= keys
    assert {k for k in numbers if k[0] == "table19" and k[1] == "learner_final 0.9"} <= keys
    assert {k for k in numbers if k[0] == "table20" and k[1].startswith("0.9 ")} <= keys


def test_numbers_only_the_paper_has_are_kept_with_a_note():
    table = numbers_table(list(bound_tables.table1(made_up())), paper())
    missing = table[(table["table"] == "table21") & (table["row"] == "0.999")]
    assert missing["value"].isna().all()
    assert missing["note"].str.contains("not in this run").all()
    text = numbers_text(table)
    assert "1327104" in text
    table = numbers_table(
        [*bound_tables.table1(made_up()), *bound_fits.growth(made_up().points)], paper()
    )
    summary = bounds_text(table)
    assert "trajectory_gradient_lipschitz<=L_SSM_R" in summary
    assert "-3.50 (-3.6)" in summary


def test_bootstrap_median():
    values = np.random.default_rng(0).normal(3, 1, 400)
    found = median(values)
    assert found.value == np.median(values)
    assert found.low < 3 < found.high
    assert found.high - found.low < 0.5
    assert median(values) == found
    assert np.isnan(median(np.array([2.0])).low)
    assert np.isnan(median(np.arange(5.0)).low)
    # Order statistics: of nine values, second and eighth enclose the median with 96%.
    assert median(np.arange(9.0)) == (4.0, 1.0, 7.0)
    assert median(np.ones(12)) == (1.0, 1.0, 1.0)
    assert np.isnan(median(np.array([])).value)


def test_bootstrap_slope_resamples_groups():
    rng = np.random.default_rng(1)
    x = np.tile(np.arange(5.0), 40)
    groups = np.repeat(np.arange(40), 5)
    y = 2 * x + np.repeat(rng.normal(0, 5, 40), 5)  # whole groups shifted: slopes are exact
    found = slope(x, y, groups)
    assert found.value == pytest.approx(np.polyfit(x, y, 1)[0])
    assert found.low < 2 + 1e-9
    assert found.high > 2 - 1e-9
    assert found.high - found.low < 1e-6
    noisy = slope(x, y + rng.normal(0, 1, len(y)), groups)
    assert noisy.low < 2 < noisy.high
    assert np.isnan(slope(np.ones(5), np.arange(5.0), np.arange(5)).value)
    few = slope(x[:45], y[:45], groups[:45])
    assert np.isfinite(few.value)
    assert np.isnan(few.low)


def test_theil_sen_ignores_an_outlier():
    x = np.arange(9.0)
    y = 3 * x
    y[4] = 1000
    assert theil_sen(x, y) == pytest.approx(3.0)
    assert np.isnan(theil_sen(np.ones(4), np.arange(4.0)))
