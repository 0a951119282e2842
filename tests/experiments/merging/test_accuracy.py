"""Every model is evaluated on every task."""

import pytest

from fedscan.experiments.merging.bench import Bench
from fedscan.pipeline.model_files import read_model
from tests.experiments.merging import tiny
from tests.experiments.merging.made import evaluate


def test_every_model_is_evaluated_on_every_task(finished):
    table = evaluate(finished)
    assert len(table) == (1 + 2 * 2 * 2) * 2
    assert table["model"].nunique() == 9
    assert table.loc[table["kind"] == "zero_shot", "seed"].isna().all()
    bench = Bench(tiny.accuracy_settings(), finished)
    path = bench.specialists(0)["trec", 0.0, 3].path
    scores = bench.classifier.scores(
        bench.classifier.place(read_model(path, bench.shape)), bench.tasks["imdb"].examples, 3
    )
    right = (scores.argmax(1) == bench.tasks["imdb"].examples.targets).mean()
    row = table.query("trained_on == 'trec' and evaluated_on == 'imdb' and mu == 0 and epoch == 3")
    assert row["accuracy"].item() == pytest.approx(100 * right)
    assert row["chance"].item() == 50
