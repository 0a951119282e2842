"""What the page says of the comparison: headline numbers, what was trained, all configurations."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.style import NAMES
from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.paper import compared_settings, differences
from fedscan.experiments.comparison.summary_tables import ALL_RUNS, COMPARISON
from fedscan.io import parquet
from fedscan.report.page import Card, Facts, TableView, number_text, table_view


def subtitle(config: Mapping[str, Any], results: Path) -> str:
    """Return one line on what was trained.

    Args:
        config: the whole configuration.
        results: folder of all results.
    """
    found = compared_settings(config)
    same = "other settings than" if differences(found) else "as in"
    text = f"{found['text']} text, tokenizer {found['tokenizer']}"
    return f"{len(_runs(results))} training runs on {text}; {same} the paper"


def configured(config: Mapping[str, Any]) -> Facts:
    """Return the facts of the configuration that a reader wants first.

    Args:
        config: the whole configuration.
    """
    found, training, model = compared_settings(config), config["training"], config["model"]
    return [
        ("text", f"{found['text']} text, tokenizer {found['tokenizer']}"),
        (
            "data",
            f"{found['sequence_length']} tokens a sequence, at most"
            f" {found['sequences_per_client']} sequences a client, seed {config['data']['seed']}",
        ),
        (
            "model",
            f"d_model {model['d_model']}, d_state {model['d_state']},"
            f" headdim {model['headdim']}, vocabulary {model['vocab_size']}",
        ),
        (
            "training",
            f"{training['rounds']} rounds, batch {training['batch_size']},"
            f" AdamW {training['lr']:g}, clip {training['clip_norm']:g}",
        ),
        ("studies", ", ".join(config["studies"])),
    ]


def found(config: Mapping[str, Any], results: Path) -> tuple[Facts, Sequence[TableView]]:
    """Return what came of the training runs; failed ones are a table.

    Args:
        config: the whole configuration.
        results: folder of all results.
    """
    runs = _runs(results)
    failed = runs[runs["status"] == "failed"]
    missing = len(grid.runs(config["studies"])) - len(runs)
    facts = [
        ("differs from the paper", differences(compared_settings(config))),
        ("training runs", f"{len(runs)} there, {len(failed)} failed, {missing} missing"),
        ("seeds", ", ".join(map(str, sorted(runs["seed"].unique())))),
        ("model parameters", _span(runs["parameters"])),
        ("kernels, device", "; ".join(_distinct(runs, ["kernels", "device", "precision"]))),
    ]
    columns = ["algorithm", "value", "setting", "beta", "depth", "local_steps", "clients"]
    columns += ["backbone", "seed", "failed_round", "failure"]
    if failed.empty:
        return facts, []
    caption = "Runs that ended non-finite. They are counted, never replaced, and never selected."
    return facts, [table_view(failed[columns], "Failed runs", caption, unfolded=True)]


def cards(numbers: Mapping[str, pd.DataFrame], results: Path) -> Iterator[Card]:
    """Yield the headline numbers.

    Args:
        numbers: folder -> its table ``numbers``, of those that are there.
        results: folder of all results.

    Yields:
        Runs, agreement with theory, the quantity that orders the algorithms.
    """
    runs = _runs(results)
    failed = int((runs["status"] == "failed").sum())
    shown = f"{len(runs) - failed} + {failed}"
    yield Card(shown, "completed + failed training runs", "", failed > 0)
    yield from _outcome_cards(numbers.get("compare"))
    yield from _practice_cards(numbers.get("practice"))


def tables(results: Path) -> Mapping[str, Sequence[TableView]]:
    """Return tables that are no numbers.

    Args:
        results: folder of all results.

    Returns:
        Anchor of a section -> views that open it.
    """
    comparison = parquet.read_frame(results / "compare/comparison.parquet", COMPARISON)
    caption = "Mean and standard deviation over seeds at the selected value."
    view = table_view(comparison_frame(comparison), "All configurations", caption, unfolded=True)
    return {"comparison": [view]}


def _runs(results: Path) -> pd.DataFrame:
    return parquet.read_frame(results / "compare/all_runs.parquet", ALL_RUNS)


def comparison_frame(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return the comparison for a reader: mean and deviation in one cell each.

    Args:
        comparison: table ``comparison``.

    Returns:
        Columns that vary or matter, best algorithm first within each configuration.
    """
    axes = ["study", "backbone", "clients", "setting", "depth", "local_steps", "beta"]
    shown = [name for name in axes if comparison[name].nunique() > 1 or name == "beta"]
    frame = comparison[shown].assign(algorithm=comparison["algorithm"].map(NAMES))
    for metric, title in (
        ("val_ppl_last10", "last-10 ppl"),
        ("val_ppl", "val ppl"),
        ("train_ppl", "train ppl"),
    ):
        frame[title] = comparison[f"{metric}_mean"].astype(float)
        frame[f"± {title}"] = comparison[f"{metric}_std"].astype(float)
    frame["vs FedAvg, %"] = comparison["change_percent"].astype(float)
    for name in ("failed_runs", "missing_runs"):
        if comparison[name].any():
            frame[name.replace("_", " ")] = comparison[name].astype(int)
    return frame.assign(value=comparison["value"])


def _practice_cards(numbers: pd.DataFrame | None) -> list[Card]:
    if numbers is None or numbers.empty:
        return []
    # In order of strength; rows of single heterogeneities follow their quantity's own.
    rows = numbers[numbers["quantity"] == numbers["quantity"].iloc[0]]
    rows = rows[~rows["row"].str.contains(" beta=", regex=False)]
    best = rows["value"].iloc[0]
    names = list(rows.loc[rows["value"] == best, "row"]) or [rows["row"].iloc[0]]
    shown = " and ".join(names if len(names) < 3 else [names[0], f"{len(names) - 1} more"])
    verb = "orders" if len(names) == 1 else "order"
    text = f"rank correlation {number_text(best)} with last-10 perplexity"
    return [Card(shown, f"{verb} the algorithms best", text)]


def _outcome_cards(numbers: pd.DataFrame | None) -> Sequence[Card]:
    if numbers is None:
        return []
    found = numbers.set_index(["table", "row", "quantity"])
    agreeing = found.loc[("table2", "agreement", "cases")]
    compared = found.loc[("table2", "agreement", "compared"), "value"]
    r = found.loc[("correlation", "all", "pearson_r")]
    interval = ""
    if not pd.isna(r["low"]):
        interval = f"95% interval {number_text(r['low'])} … {number_text(r['high'])}; "
    return [
        Card(
            f"{number_text(agreeing['value'])} of {number_text(compared)}",
            "changes as theory expects",
            f"paper: {number_text(agreeing['paper'])} of 16",
        ),
        Card(
            number_text(r["value"]) or "n/a",
            "Pearson's r, expectation and outcome",
            f"{interval}paper: {number_text(r['paper'])}",
        ),
    ]


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _distinct(frame: pd.DataFrame, columns: list[str]) -> list[str]:
    return sorted({", ".join(map(str, row)) for row in frame[columns].drop_duplicates().to_numpy()})
