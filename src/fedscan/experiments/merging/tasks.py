"""Stage ``task_data``: labelled records -> one seeded choice of examples as token ids."""

import functools
from collections.abc import Mapping
from typing import Any

from fedscan.data.prompts import choose, encode_prompt, label_ids, layout
from fedscan.data.tasks import TASK_SOURCES
from fedscan.data.tasks.definition import Example, Pool, definitions
from fedscan.data.tokenizer import first_tokens
from fedscan.data.tokenizers import TOKENIZERS
from fedscan.experiments.merging.tables import TASK_EXAMPLES, TASK_LABELS
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.errors import under_key
from fedscan.pipeline.stage import Job


def run(job: Job) -> None:
    """Write the examples and labels of one task and subset.

    Args:
        job: settings: ``task``, ``split`` ('train' or 'evaluation'), ``seed`` and ``cap`` of the
            choice, ``source`` and ``own`` (that source's keys), ``max_tokens``,
            ``reserved_tokens`` and the section ``tokenizer``; the plan adds the task's
            ``definition``, so that a changed prompt is a changed setting. Its folder receives
            examples.parquet and labels.parquet.

    Raises:
        ValueError: if a record is not one of the task's, or prompts cannot be made to fit.
    """
    settings, folder = job.settings, job.folder
    task = definitions()[settings["task"]]
    name = settings["tokenizer"]["name"]
    tokenizer = TOKENIZERS[name](**settings["tokenizer"].get(name, {}))
    with under_key("merging.max_tokens, merging.reserved_tokens"):
        room = layout(task, tokenizer.encode, settings["max_tokens"], settings["reserved_tokens"])
    source = settings["source"]
    with under_key(f"merging.{source}"):
        pool = TASK_SOURCES[source](task, settings["split"], **settings["own"])
    chosen = choose(pool, settings["cap"], settings["seed"], task.name, settings["split"])
    rows = []
    for index, source_row in enumerate(chosen.tolist()):
        example = _example(pool, source_row)
        # A prompt has fewer tokens than these; fields may be as long as books.
        encode = functools.partial(
            first_tokens,
            tokenizer,
            most=settings["max_tokens"],
            place=f"{pool.origin}: record {source_row + 1}",
        )
        prompt = encode_prompt(task, example.fields, encode, room)
        facts = {"example": index, "source_row": source_row, "label": example.label}
        rows.append({**facts, "truncated": prompt.truncated, "prompt": prompt.ids.tolist()})
    labels = [
        {"label": index, "word": label.word, "name": label.name, "ids": ids.tolist()}
        for index, (label, ids) in enumerate(
            zip(task.labels, label_ids(task, tokenizer.encode), strict=True)
        )
    ]
    provenance = {"settings": _without_paths(settings), "versions": versions()}
    parquet.write(folder / "labels.parquet", TASK_LABELS, labels, provenance)
    parquet.write(folder / "examples.parquet", TASK_EXAMPLES, rows, provenance)
    cut = sum(row["truncated"] for row in rows)
    job.report(f"{task.name}: {len(rows)} of {pool.size} records of {pool.origin}, {cut} cut")


def _example(pool: Pool, row: int) -> Example:
    try:
        return pool.get(row)
    except ValueError as error:
        raise ValueError(f"{error} ({pool.origin})") from None


def _without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what differs between machines."""
    return {k: v for k, v in settings.items() if k not in ("own", "tokenizer")}
