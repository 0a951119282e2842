"""Numbers by hand, the chosen learning rate, figures of whole and empty results, the text."""

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.sessa import plan, summary
from fedscan.experiments.sessa.figures import figures
from fedscan.experiments.sessa.numbers import chosen, numbers
from fedscan.experiments.sessa.paper import paper_numbers
from fedscan.experiments.sessa.text import sessa_text
from fedscan.io import parquet
from fedscan.pipeline.paper import published
from fedscan.pipeline.tables import NUMBERS
from fedscan.report.contents import figures as shown
from tests.experiments.sessa import tiny


def settings(**changes):
    return plan.sessa(tiny.config(**changes))


@pytest.fixture(scope="module")
def made(finished, tmp_path_factory):
    root = tiny.copied(finished, tmp_path_factory.mktemp("summary"))
    tiny.run("summary", settings(), root / "sessa/tables", root)
    return root


@pytest.fixture(scope="module")
def found(finished):
    from fedscan.pipeline.stage import Job

    return summary._found(Job(settings(), {}, finished, finished, finished, print, print))


def test_files(made):
    folder = made / "sessa/tables"
    for name in shown(plan.ROOM, "sessa/tables"):
        for ending in ("png", "svg"):
            assert (folder / f"{name}.{ending}").stat().st_size > 1000, name
    text = (folder / "summary.txt").read_text()
    assert "mqar (chance 0.125, stored value 0.417)" in text
    assert "0 violated" in text
    rows = parquet.read_frame(folder / "numbers.parquet", NUMBERS)
    tables = {"table1", "table2", "control", "accuracy", "groups", "recall", "models", "loop_off",
              "decay", "regime", "federated", "claims", "retrieval"}  # fmt: skip
    assert set(rows["table"]) == tables
    assert not rows.duplicated(["table", "row", "quantity"]).any()


def test_the_papers_numbers_stand_beside(made):
    rows = parquet.read_frame(made / "sessa/tables/numbers.parquet", NUMBERS)
    beside = rows.set_index(["table", "row", "quantity"])
    assert beside.loc[("table1", "soup sessa", "test_accuracy"), "paper"] == 0.8601
    assert beside.loc[("table1", "mqar mha", "test_token_accuracy"), "paper"] == 0.1222
    assert beside.loc[("table2", "stories sessa", "perplexity"), "paper"] == 8.37
    # Mamba2 is not among this run's mixers: said, not dropped.
    missing = beside.loc[("table1", "soup mamba2", "test_accuracy")]
    assert np.isnan(missing["value"])
    assert "not in this run" in missing["note"]


def test_every_published_number_is_read():
    found = paper_numbers(published(summary.PUBLISHED, ["sessa"]))
    assert len(found) == 6 + 9 + 4
    assert found["control", "stories sessa_no_feedback", "perplexity"] == 8.0902


def test_the_same_results_give_the_same_bytes(made, finished, tmp_path):
    root = tiny.copied(finished, tmp_path)
    tiny.run("summary", settings(), root / "sessa/tables", root)
    assert tiny.bytes_of(root / "sessa/tables") == tiny.bytes_of(made / "sessa/tables")


def runs(*rows):
    names = ("mixer", "seed", "lr", "validation_loss", "status")
    frame = pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    return frame.assign(task="soup", width=8)


def test_the_rate_with_the_lowest_mean_over_seeds():
    found = chosen(
        runs(
            ("sessa", 0, 0.1, 1.0, "completed"), ("sessa", 1, 0.1, 1.4, "completed"),
            ("sessa", 0, 0.2, 0.1, "completed"), ("sessa", 1, 0.2, 2.5, "completed"),
            ("mha", 0, 0.1, 2.0, "completed"), ("mha", 1, 0.1, 2.0, "completed"),
            ("mha", 0, 0.2, 0.5, "completed"), ("mha", 1, 0.2, np.nan, "failed"),
        )
    )  # fmt: skip
    # A rate counts only if all its seeds were completed.
    assert found[["mixer", "lr"]].drop_duplicates().to_numpy().tolist() == [
        ["sessa", 0.1], ["mha", 0.1],
    ]  # fmt: skip
    assert chosen(runs(("sessa", 0, 0.1, np.nan, "failed"))).empty


def test_numbers_by_hand(found):
    by_key = {(n.table, n.row, n.quantity): n for n in numbers(found)}
    best = chosen(found.runs)
    own = best[(best["task"] == "mqar") & (best["mixer"] == "sessa")]
    keys = ["task", "mixer", "width", "seed", "lr"]
    rows = found.accuracy.merge(own[keys], on=keys)
    rows = rows[(rows["group"] == "all") & (rows["split"] == "test")]
    value = by_key["table1", "mqar sessa", "test_token_accuracy"].value
    assert value == pytest.approx(rows["accuracy"].mean())
    first = rows[rows["factor"] == 2]["accuracy"].iloc[0]
    assert by_key["accuracy", "mqar sessa x2", "accuracy"].value == first
    stories = by_key["table2", "stories mha", "perplexity"].value
    whole = found.accuracy[
        (found.accuracy["task"] == "stories") & (found.accuracy["mixer"] == "mha")
    ]
    whole = whole[(whole["group"] == "all") & (whole["split"] == "test") & (whole["factor"] == 1)]
    assert any(np.isclose(stories, np.exp(loss)) for loss in whole["loss"])
    assert by_key["accuracy", "mqar", "stored_value"].value == pytest.approx(1 / 3 + 2 / 3 / 8)
    limit = by_key["federated", "soup sessa, fedavg -, beta 1, |b| <= 0.5", "test_loss"]
    assert limit.value > 0


def test_figures_say_what_is_missing(found):
    nothing = found._replace(
        **{
            name: frame.iloc[:0]
            for name, frame in found._asdict().items()
            if isinstance(frame, pd.DataFrame)
        },
        gains=[],
    )
    for name, draw in figures(nothing).items():
        drawn = draw()
        texts = [text.get_text() for axis in drawn.axes for text in axis.texts]
        assert texts, name
    off = found._replace(federated_runs=None, federated_rounds=None)
    assert "switched off" in figures(off)["federated"]().axes[0].texts[0].get_text()


def test_federated_training_can_be_switched_off(finished, tmp_path):
    root = tiny.copied(finished, tmp_path)
    tiny.run("summary", {**settings(), "federated": None}, root / "sessa/tables", root)
    rows = parquet.read_frame(root / "sessa/tables/numbers.parquet", NUMBERS)
    assert "federated" not in set(rows["table"])


def test_failed_runs_are_said(found):
    text = sessa_text(found._replace(runs=found.runs.assign(status="failed")))
    assert f"{len(found.runs)} of {len(found.runs)} runs became non-finite" in text
