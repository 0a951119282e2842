"""Stage consensus: numbers by hand, published ones beside, words that do not promise too much."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedscan.experiments.consensus import page
from fedscan.experiments.consensus.numbers import largest_t_star
from fedscan.experiments.consensus.paper import (
    CURVES,
    is_the_papers,
    paper_numbers,
    published_numbers,
    variants_of,
)
from fedscan.experiments.consensus.study_numbers import gate_effects
from fedscan.experiments.consensus.summary import PUBLISHED, model_tables
from fedscan.pipeline.paper import published
from tests.experiments.consensus import made
from tests.experiments.consensus.made import VARIANTS, variant

PAPER = published_numbers(published(PUBLISHED, ["consensus"])["consensus"])


def numbers(results):
    rows = pd.read_parquet(results / "consensus/tables/numbers.parquet")
    return rows.set_index(["table", "row", "quantity"]).sort_index()


def test_the_ends_of_figure1_by_hand(whole):
    found = numbers(whole).loc[("figure1", "tiny: no_gate", "lambda1_end")]
    rows = made.curves(whole / "consensus/models/model=tiny")
    rows = rows[(rows["variant"] == "no_gate") & (rows["depth"] > 11)]  # a tenth of 12 depths
    values = rows.groupby("draw")["lambda1"].mean()
    assert found["value"] == pytest.approx(values.mean())
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    assert found["paper"] == 0.8
    assert found["difference"] == pytest.approx(found["value"] - 0.8)
    assert "a stand-in" in found["note"]
    assert "random, 4,632 parameters" in found["note"]
    assert "6 tokens, depth 12, 3 draws" in found["note"]


def test_a_repeated_layer_stands_as_the_median_of_layers(whole):
    found = numbers(whole).loc[("figure2", "tiny: repeat", "lambda1_end")]
    rows = made.curves(whole / "consensus/models/model=tiny")
    rows = rows[(rows["variant"] == "repeat") & (rows["depth"] == 12)]
    wide = rows.pivot_table(index="draw", columns="layer", values="lambda1")
    assert found["value"] == pytest.approx(wide.median(axis=1).mean())
    assert "median of 2 layers" in found["note"]


def test_redrawn_weights_are_never_called_reproduced(whole):
    rows = numbers(whole).loc["figure3"]
    assert rows["note"].str.contains("not a reproduction").all()
    text = (whole / "consensus/tables/numbers.txt").read_text()
    assert "reproduced" not in text
    assert "not the paper's checkpoint" in (whole / "consensus/tables/summary.txt").read_text()


def test_the_largest_t_star_is_none_as_soon_as_one_token_has_none(whole):
    model = model_tables(whole / "consensus/models/model=tiny")
    windows = model.windows.copy()
    mine = (windows["variant"] == "no_gate") & (windows["quantity"] == "q_token")
    windows.loc[mine, "t_star"] = 3
    assert largest_t_star(model._replace(windows=windows), "no_gate", "q_token") == (3, 0, 18)
    windows.loc[windows.index[mine][4], "t_star"] = None
    largest, without, count = largest_t_star(model._replace(windows=windows), "no_gate", "q_token")
    assert np.isnan(largest)
    assert (without, count) == (1, 18)


def test_runs_in_numbers_by_hand(whole):
    rows = pd.read_parquet(whole / "consensus/runs/study=main/consensus_runs.parquet")
    found = numbers(whole).loc["runs"]
    assert found.loc[("models", "completed"), "value"] == 6
    deep = rows[(rows["applied"] == 12) & (rows["variant"] == "gate")]
    runs, initial = deep[deep["kind"] == "run"], deep[deep["kind"] == "initial"]
    trained = found.loc[("gate trained", "lambda1")]
    assert trained["value"] == pytest.approx(runs["lambda1"].mean())
    change = found.loc[("gate trained against initial", "lambda1_change")]
    assert change["value"] == pytest.approx((runs["lambda1"] - initial["lambda1"].iloc[0]).mean())
    wide = runs.pivot_table(index=["algorithm", "value"], columns="beta", values="lambda1")
    betas = found.loc[("gate beta=1 against 0", "lambda1_change")]
    assert betas["value"] == pytest.approx((wide[1.0] - wide[0.0]).mean())
    assert "3 models" in betas["note"]
    base = runs[runs["algorithm"] == "fedavg"].set_index("beta")["lambda1"]
    prox = runs[runs["algorithm"] == "fedprox"]
    against = found.loc[("gate fedprox against fedavg", "lambda1_change")]
    wanted = (prox["lambda1"] - prox["beta"].map(base)).mean()
    assert against["value"] == pytest.approx(wanted)
    rank = found.loc[("gate with last-10 perplexity", "spearman_lambda1")]
    assert rank["value"] == pytest.approx(
        stats.spearmanr(runs["lambda1"], runs["val_ppl_last10"]).statistic
    )


def test_the_gates_effect_is_paired_by_model(whole):
    rows = pd.read_parquet(whole / "consensus/runs/study=main/consensus_runs.parquet")
    found = gate_effects(rows, VARIANTS)
    deep = rows[rows["applied"] == 12].pivot_table(
        index="subject", columns="variant", values="lambda1"
    )
    wanted = deep["no_gate"] - deep["gate"]
    pd.testing.assert_series_equal(
        found["gate_effect"], wanted, check_names=False, check_exact=True
    )
    alone = rows[rows["variant"] == "gate"]
    assert gate_effects(alone, VARIANTS).empty


def test_merges_in_numbers_by_hand(whole):
    rows = pd.read_parquet(whole / "consensus/merging/consensus_merges.parquet")
    deep = rows[(rows["applied"] == 12) & (rows["variant"] == "gate")]
    experts = deep[deep["kind"] == "specialist"]["lambda1"]
    average = deep[deep["kind"] == "average"]["lambda1"].iloc[0]
    found = numbers(whole).loc["merging"]
    assert found.loc[("tiny gate average", "lambda1"), "value"] == average
    inside = found.loc[("tiny gate average", "between_specialists")]
    assert inside["value"] == int(experts.min() <= average <= experts.max())


def test_published_pairs_obey_the_inequality_within_rounding():
    pairs = {}
    for one in PAPER:
        pairs.setdefault(one.curve, {})[one.quantity] = one.value
    checked = 0
    for values in pairs.values():
        if "lambda1_end" in values and "participation_end" in values:
            largest, spread = values["lambda1_end"], values["participation_end"]
            assert 1 / (largest + 0.05) <= spread * 1.05
            assert spread * 0.95 <= 1 / (largest - 0.05) ** 2
            checked += 1
    assert checked == 5


def test_published_numbers_stand_beside_what_they_are_of():
    found = paper_numbers(PAPER, ["a", "b"], VARIANTS)
    assert found["figure1", "a: gate", "lambda1_end"] == 0.45
    assert found["figure1", "b: no_gate", "participation_end"] == 1.4
    assert found["figure6", "a: random", "t_star_largest"] == 35
    assert np.isnan(found["figure6", "a: random_no_silu", "t_star_largest"])
    # Nothing of this run is of that kind: the paper's own name.
    assert (
        found["figure6", "mamba2-130m: original weights, no SiLU, no gate", "t_star_largest"] == 11
    )
    assert ("figure1", "mamba2-130m: original weights, SiLU, gate", "lambda1_end") not in found


def test_which_variants_a_published_curve_is_of():
    mine = {
        "plain": variant(), "half": variant(gate=0.5), "ball": variant(update="sphere"),
        "slow": variant(tau=0.5), "no_conv": variant(conv=False),
        "mixer": variant(weights="redraw", gate=0, conv=False),
    }  # fmt: skip
    beside = {curve.title: list(variants_of(curve, mine)) for curve in CURVES}
    assert beside["original weights, SiLU, gate"] == ["plain"]
    assert beside["redrawn every layer, SiLU, no gate"] == ["mixer"]
    assert beside["one layer repeated, SiLU, no gate"] == []


def test_an_unknown_published_row_is_refused():
    table = published(PUBLISHED, ["consensus"])["consensus"].copy()
    table.loc[len(table)] = ["figure9", "x", "lambda1", 1.0, ""]
    with pytest.raises(ValueError, match=r"consensus.csv: no curve or quantity for .*figure9"):
        published_numbers(table)


def test_only_the_papers_own_checkpoint_is_called_so():
    right = {"source": "mamba2-130m", "d_model": 768, "layers": 24}
    assert is_the_papers(right)
    assert not is_the_papers(right | {"layers": 2})
    assert not is_the_papers(right | {"source": "random"})


def test_figures_are_there_and_parts_may_be_off(whole, tmp_path):
    tables = whole / "consensus/tables"
    names = ("figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7", "kernels",
             "gate", "layers", "tokens", "rounds", "outcomes", "merges")  # fmt: skip
    for name in names:
        assert (tables / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tables / f"{name}.svg").read_text().startswith("<?xml")
    before = {p.name: p.read_bytes() for p in tables.iterdir()}
    made.summarise(whole)
    assert {p.name: p.read_bytes() for p in tables.iterdir()} == before


def test_cards(whole):
    rows = pd.read_parquet(whole / "consensus/tables/numbers.parquet")
    cards = list(page.cards({"consensus/tables": rows}, whole))
    assert len(cards) == 2
    assert "mamba2-130m: 0.45" in {card[2] for card in cards}
    assert list(page.cards({}, whole)) == []
