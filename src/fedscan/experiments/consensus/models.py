"""Stage ``consensus_model``: one model, all variants, over depth; a draw is computed once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.consensus import loading
from fedscan.experiments.consensus.layers import layer_rows
from fedscan.experiments.consensus.rows import draw_rows
from fedscan.experiments.consensus.starts import text_ids, uniform_ids
from fedscan.experiments.consensus.tables import LAYERS, MODEL, MODEL_TABLES, UNIT
from fedscan.experiments.consensus.variants import Iteration, Subject, followed, iterations
from fedscan.io import parquet
from fedscan.io.digests import arrays_sha256
from fedscan.io.provenance import digest, versions
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job

# What every number of a draw depends on, the model and the variant aside.
SHARED = ("seed", "tokens", "depth", "precision", "device", "threads")


def run(job: Job) -> None:
    """Iterate every draw of every variant that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``name`` and section ``model``, ``jobs`` (of checkpoint 'federated'),
            ``seed``, ``tokens``, ``draws``, ``depth``, ``source``, ``precision``, ``device``,
            ``threads``, ``draws_per_batch``, ``random``, ``variants``, ``rerun_on_code_change`` and
            the ``code`` fingerprint; of source 'text' the file ``text`` below results. Its folder
            receives a Parquet file for each of ``MODEL_TABLES``, consensus_model and
            consensus_layers.

    Raises:
        ValueError: if the model, its vocabulary or a layer to repeat is not there.
    """
    settings = job.settings
    require_device(settings["device"], "consensus")
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    study = study_of(job)
    batches = list(_missing(study, job))
    total = sum(len(batch) for _, batch in batches)
    done = 0
    for one, batch in batches:
        found = followed(one, study.subject, study.ids[batch.start : batch.stop], batch)
        for index, draw in enumerate(batch):
            unit = (one.name, one.layer, draw)
            key = {**dict(zip(UNIT, unit, strict=True)), **study.identity(one)}
            study.kept.put(unit, draw_rows(found, index, key))
        job.saved()
        done += len(batch)
        ends = ", ".join(f"{end:.3f}" for end in found.lambda1[:, -1])
        job.report(f"{_title(one)}, draws {batch.start} to {batch.stop - 1}: lambda1 {ends}")
        job.report.advance(f"consensus {settings['name']}", done, total, _title(one))
    provenance = {
        "settings": without(settings, "rerun_on_code_change", "draws_per_batch"),
        "versions": versions(),
    }
    rows = layer_rows(study.subject, study.ids)
    parquet.write(job.folder / "consensus_layers.parquet", LAYERS, rows, provenance)
    parquet.write(job.folder / "consensus_model.parquet", MODEL, [study.facts], provenance)
    draws = range(settings["draws"])
    units = [(one.name, one.layer, draw) for one in study.iterations for draw in draws]
    study.kept.write(units, provenance)


class Study(NamedTuple):
    """One model with what is asked of it.

    Attributes:
        subject: the model.
        facts: its row of table ``consensus_model``.
        ids: token ids, (draws, tokens).
        text_sha256: digest of the sequences they were chosen from; empty: of none.
        iterations: curves that are asked for.
        kept: rows that are there.
        settings: of the job.
    """

    subject: Subject
    facts: Mapping[str, Any]
    ids: np.ndarray
    text_sha256: str
    iterations: Sequence[Iteration]
    kept: KeptRows
    settings: Mapping[str, Any]

    def identity(self, one: Iteration) -> dict[str, str]:
        """Return the hashes that rows of a curve must have to be kept."""
        parts: list[Any] = [
            only(self.settings, *SHARED),
            dict(one.variant),
            one.layer,
            self.facts["sha256"],
        ]
        if one.redrawn:
            parts.append(dict(one.random))
        if not one.drawn_tokens:
            parts += [self.settings["source"], self.facts["vocabulary"], self.text_sha256]
        return {"config_hash": digest(parts), "code_hash": self.settings["code"]}


def study_of(job: Job) -> Study:
    """Load a job's model and say what is asked of it; bad settings end here, before any work.

    Args:
        job: as of ``run``.

    Returns:
        The study.
    """
    settings = job.settings
    key = f"consensus.models.{settings['name']}"
    loaded = loading.load(
        settings["model"],
        settings.get("jobs", ()),
        job.results / "federated",
        settings["seed"],
        key,
    )
    shape = loaded.shape
    vocabulary = loading.vocabulary(settings["model"], shape, key)
    asked = iterations(
        settings["variants"], settings["random"], settings["seed"], settings["depth"], shape.depth
    )
    draws, tokens = range(settings["draws"]), settings["tokens"]
    if settings["source"] == "text":
        sequences = loading.validation_text(job.results / settings["text"], vocabulary)
        ids = text_ids(settings["seed"], draws, tokens, sequences)
        text_sha256 = arrays_sha256([sequences])
    else:
        text_sha256 = ""
        ids = uniform_ids(settings["seed"], draws, tokens, vocabulary)
    facts = {
        **only(settings, "tokens", "draws", "depth", "precision"),
        "source": loaded.source,
        "selected": loaded.selected,
        "val_ppl_last10": loaded.val_ppl_last10,
        "paper": settings["model"]["paper"],
        "d_model": shape.d_model,
        "layers": shape.depth,
        "d_state": shape.d_state,
        "heads": shape.expand * shape.d_model // shape.headdim,
        "headdim": shape.headdim,
        "parameters": sum(tensor.numel() for tensor in loaded.model.parameters()),
        "vocabulary": vocabulary,
        "sha256": loaded.sha256,
    }
    subject = loading.subject(loaded, settings["precision"], settings["device"])
    counts = settings["rerun_on_code_change"]
    kept = KeptRows(
        job.folder, MODEL_TABLES, UNIT, counts, job.report, progress=job.scratch / "rows"
    )
    return Study(subject, facts, ids, text_sha256, asked, kept, settings)


def _missing(study: Study, job: Job) -> Iterator[tuple[Iteration, range]]:
    """Yield runs of neighbouring draws that are not in the tables, batch by batch."""
    size = study.settings["draws_per_batch"]
    for one in study.iterations:
        identity = study.identity(one)
        wanted = [
            draw
            for draw in range(study.settings["draws"])
            if study.kept.get((one.name, one.layer, draw), identity) is None
        ]
        if len(wanted) < study.settings["draws"]:
            have = study.settings["draws"] - len(wanted)
            job.report(f"{_title(one)}: {have} draws are already in the tables")
        while wanted:
            first = wanted[0]
            count = next(
                (i for i, draw in enumerate(wanted) if draw != first + i or i == size), len(wanted)
            )
            yield one, range(first, first + count)
            wanted = wanted[count:]


def _title(one: Iteration) -> str:
    return one.name if one.layer < 0 else f"{one.name}, layer {one.layer}"
