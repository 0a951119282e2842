"""Selection and comparison on a table made by hand."""

import math

import pandas as pd
import pytest

from fedscan.analysis.style import LOOKS, NAMES
from fedscan.experiments.comparison.curves import validation_curves
from fedscan.experiments.comparison.figures import figures
from fedscan.experiments.comparison.selection import CONFIGURATION, compare
from fedscan.experiments.comparison.text import comparison_text
from fedscan.federated.algorithms import ALGORITHMS

CONFIG = {
    "backbone": "mamba2", "clients": 4, "setting": "1", "depth": 4, "local_steps": 64, "beta": 0.7,
}  # fmt: skip


def run(algorithm, value, seed, last10, status="completed", **config):
    ppl = math.nan if status == "failed" else last10
    return {
        **CONFIG, **config, "algorithm": algorithm, "value": value, "seed": seed, "status": status,
        "train_ppl": 2 * ppl, "val_ppl": 1.5 * ppl, "val_ppl_last10": ppl,
        "data_source": "synthetic", "tokenizer": "bytes",
    }  # fmt: skip


RUNS = pd.DataFrame(
    [
        run("fedavg", "-", 0, 50.0),
        run("fedavg", "-", 1, 54.0),
        run("fedprox", "mu=0.001", 0, 40.0),
        run("fedprox", "mu=0.001", 1, 44.0),
        # better on one seed, worse on average
        run("fedprox", "mu=0.05", 0, 30.0),
        run("fedprox", "mu=0.05", 1, 60.0),
        # best, but one seed is missing
        run("fedprox", "mu=0.5", 0, 1.0),
        run("fedprox", "mu=0.5", 1, math.nan, status="missing"),
        # best where it lives, but one seed diverged
        run("fedsam", "radius=0.1", 0, 2.0),
        run("fedsam", "radius=0.1", 1, 0.0, status="failed"),
        run("fedsam", "radius=0.2", 0, 52.0),
        run("fedsam", "radius=0.2", 1, 52.0),
        run("scaffold", "refresh_every=4", 0, 0.0, status="failed"),
        run("scaffold", "refresh_every=4", 1, 0.0, status="failed"),
        run("fedprox", "mu=0.001", 0, 10.0, beta=1.0),
        run("fedprox", "mu=0.001", 1, 10.0, beta=1.0),
    ]
)


@pytest.fixture
def table():
    return compare(RUNS).set_index(["beta", "algorithm"])


def test_the_value_with_the_lowest_mean_over_all_seeds_is_selected(table):
    row = table.loc[0.7, "fedprox"]
    assert row["value"] == "mu=0.001"
    assert row["val_ppl_last10_mean"] == 42.0
    assert row["val_ppl_last10_std"] == pytest.approx(math.sqrt(8))
    assert (row["train_ppl_mean"], row["val_ppl_mean"]) == (84.0, 63.0)
    assert row["change_percent"] == pytest.approx(100 * (42 / 52 - 1))
    assert (row["values_tried"], row["values_missing"], row["seeds"]) == (2, 1, 2)
    assert (row["missing_runs"], row["failed_runs"]) == (1, 0)


def test_failures_are_counted_and_never_selected(table):
    row = table.loc[0.7, "fedsam"]
    assert (row["value"], row["failed_runs"]) == ("radius=0.2", 1)
    assert row["change_percent"] == 0.0
    failed = table.loc[0.7, "scaffold"]
    assert (failed["value"], failed["failed_runs"], failed["seeds"]) == ("-", 2, 0)
    assert pd.isna(failed["val_ppl_last10_mean"])
    assert pd.isna(failed["change_percent"])


def test_without_a_baseline_there_is_no_change(table):
    assert pd.isna(table.loc[1.0, "fedprox"]["change_percent"])


def test_ties_go_to_the_first_value_in_canonical_order():
    rows = [run("fedprox", value, 0, 3.0) for value in ("mu=0.2", "mu=0.1")]
    assert compare(pd.DataFrame(rows))["value"].tolist() == ["mu=0.1"]


def test_rows_are_sorted_and_order_of_input_is_irrelevant():
    one = compare(RUNS)
    other = compare(RUNS.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(one, other)
    part = one[one["beta"] == 0.7]["algorithm"].tolist()
    assert part == ["fedprox", "fedavg", "fedsam", "scaffold"]


def test_text_has_every_number_and_says_what_failed():
    text = comparison_text(compare(RUNS).assign(study="main"), "synthetic", "bytes")
    assert "synthetic text" in text
    assert "42.00 ± 2.83" in text
    assert "-19.2%" in text
    assert "2 failed" in text
    assert "1 values incomplete" in text
    assert "1 runs missing" in text
    assert "study=main" in text


def rounds():
    return pd.concat(
        RUNS[[*CONFIGURATION, "algorithm", "value", "seed"]].assign(round=r, val_ppl=100.0 / r)
        for r in (1, 2, 3)
    )


def test_curves_have_a_panel_per_depth_e_and_beta_and_name_the_data():
    figure = validation_curves(rounds(), compare(RUNS), "synthetic", "bytes")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["β = 0.7, depth 4, E = 64", "β = 1, depth 4, E = 64"]
    assert "synthetic text" in figure.get_suptitle()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["FedAvg", "FedProx", "FedSAM"]


def test_every_algorithm_has_a_name_and_a_look_of_its_own():
    assert set(NAMES) == set(LOOKS) == set(ALGORITHMS)
    assert len({(look["color"], look["linestyle"]) for look in LOOKS.values()}) == len(LOOKS)


ROLES = {"grid": "main", "client_count": "main", "backbone": None}
TEXT = {"text": "synthetic", "tokenizer": "bytes"}


def test_every_figure_of_the_configuration_is_named_and_drawn():
    comparison = compare(RUNS).assign(study="main")
    drawn = {k: draw() for k, draw in figures(comparison, rounds(), ROLES, TEXT).items()}
    assert list(drawn) == ["validation_curves", "change_heat_map", "tuned_values", "client_count"]
    heat = drawn["change_heat_map"].axes[0]
    written = {text.get_text() for text in heat.texts}
    assert {"-19.2", "+0.0", "n/a"} <= written
    assert [text.get_text() for text in heat.get_yticklabels()] == [
        "β=0.7  E=64  depth 4  setting 1",
    ]
    chosen = drawn["tuned_values"].axes
    assert [axis.get_title() for axis in chosen[:2]] == ["FedProx", "FedSAM"]
    # FedSAM's one configuration selected radius 0.2, of two values.
    assert chosen[1].images[0].get_array().tolist() == [[0.0], [1.0]]
    words = [text.get_text() for text in chosen[1].get_yticklabels()]
    assert words == ["radius=0.1", "radius=0.2"]
    for figure in drawn.values():
        figure.draw_without_rendering()


def test_figures_without_anything_to_show_say_so():
    rows = pd.DataFrame([run("fedavg", "-", 0, 50.0)])
    comparison = compare(rows).assign(study="main")
    alone = rounds()[rounds()["algorithm"] == "fedavg"]
    found = figures(comparison, alone, ROLES, TEXT)
    heat, tuned = found["change_heat_map"](), found["tuned_values"]()
    assert "no algorithm" in heat.axes[0].texts[0].get_text()
    assert "one value" in tuned.axes[0].texts[0].get_text()
