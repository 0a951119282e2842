"""Stage ``sessa_data``: the sequences of one task, with what is known of each."""

import json
from typing import Any

from fedscan.experiments.sessa.example import VOCABULARY, Example, Split, Vocabulary, splits
from fedscan.experiments.sessa.tables import EXAMPLES
from fedscan.experiments.sessa.tasks import TASKS
from fedscan.io import atomic, parquet
from fedscan.io.digests import file_sha256
from fedscan.io.provenance import versions
from fedscan.pipeline.errors import under_key
from fedscan.pipeline.stage import Job


def run(job: Job) -> None:
    """Write the sequences of all splits and the vocabulary.

    Args:
        job: settings: ``task``, its ``section`` and the root ``seed``. Its folder receives
            sessa_examples.parquet and vocabulary.json.

    Raises:
        ValueError: if a source of stories cannot be read, or has too few.
    """
    settings, folder = job.settings, job.folder
    name, section = settings["task"], settings["section"]
    rows: list[dict[str, Any]] = []
    with under_key(f"sessa.tasks.{name}"):
        vocabulary, examples = TASKS[name].make(section, settings["seed"])
        for split in splits(section):
            found = [_row(split, i, one) for i, one in enumerate(examples(split))]
            rows += found
            lengths = [row["length"] for row in found]
            where = f"{split.name}, factor {split.factor}" if split.factor > 1 else split.name
            job.report(
                f"{where}: {len(found)} sequences of {min(lengths)} to {max(lengths)} tokens"
            )
    _require_known(rows, vocabulary)
    facts = {k: v for k, v in section.items() if k not in ("local", "huggingface")}
    provenance = {
        "settings": {**settings, "section": facts},
        "versions": versions(),
    }
    known = {**vocabulary._asdict(), "baselines": TASKS[name].baselines(section)}
    text = json.dumps(known, indent=1, sort_keys=True)
    atomic.write_text(folder / VOCABULARY, text + "\n")
    # The table comes last: it is the file that says that the task is there.
    provenance["vocabulary_sha256"] = file_sha256(folder / VOCABULARY)
    parquet.write(folder / f"{EXAMPLES.name}.parquet", EXAMPLES, rows, provenance)


def _row(split: Split, index: int, one: Example) -> dict[str, Any]:
    lags = one.lags.tolist()
    return {
        "split": split.name,
        "factor": split.factor,
        "index": index,
        "length": len(one.tokens),
        "label": one.label,
        "order": one.order,
        "shortest_block": one.shortest_block,
        "pairs": one.pairs,
        "source": one.source,
        "ceiling_correct": one.ceiling_correct,
        "lag_min": min(lags, default=None),
        "lag_max": max(lags, default=None),
        "text_bytes": one.text_bytes,
        "tokens": one.tokens.tolist(),
        "places": one.places.tolist(),
        "answers": one.answers.tolist(),
        "lags": lags,
    }


def _require_known(rows: list[dict[str, Any]], vocabulary: Vocabulary) -> None:
    largest = max(max(row["tokens"]) for row in rows)
    if largest >= vocabulary.size:
        raise ValueError(f"id {largest} is none of the vocabulary's {vocabulary.size}")
