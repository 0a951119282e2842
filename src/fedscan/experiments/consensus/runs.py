"""Stage ``consensus_runs``: the models of a federated study, and those they start from."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.comparison.grid import Job as RunJob
from fedscan.experiments.comparison.models import file, read, rows
from fedscan.experiments.comparison.tables import last_round
from fedscan.experiments.consensus import loading
from fedscan.experiments.consensus.ends import end_rows, unmeasurable, unmeasured
from fedscan.experiments.consensus.grid import ROUND_LAST
from fedscan.experiments.consensus.run_tables import RUNS, SUBJECT_UNIT
from fedscan.experiments.consensus.starts import text_ids, uniform_ids
from fedscan.experiments.consensus.variants import ALL_LAYERS, Iteration
from fedscan.experiments.corpus.grid import partition_path
from fedscan.io.digests import arrays_sha256
from fedscan.io.provenance import digest, versions
from fedscan.models.architecture import Architecture
from fedscan.models.backbones import BACKBONES
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job

SHARED = ("seed", "tokens", "draws", "depth", "source", "precision", "device", "threads")


class Run(NamedTuple):
    """A model of the study.

    Attributes:
        facts: columns that name it.
        shape: architecture.
        file: its values; None: the initial ones.
        failure: why there is nothing to iterate, or None.
        partition: folder of the validation text, below results/partition.
    """

    facts: Mapping[str, Any]
    shape: Architecture
    file: Path | None
    failure: str | None
    partition: str


def run(job: Job) -> None:
    """Iterate every model that is not in the table yet, and write the table.

    Args:
        job: settings: ``jobs`` (rows of path, axes and values), ``model`` (section), ``rounds``,
            ``variants`` (name -> section), ``seed``, ``tokens``, ``draws``, ``depth``, ``source``,
            ``precision``, ``device``, ``threads``, ``draws_per_batch``, ``rerun_on_code_change``
            and the ``code`` fingerprint; results/federated and, of source 'text',
            results/partition. Its folder receives consensus_runs.parquet.

    Raises:
        ValueError: if a model is not kept, or is damaged.
    """
    settings = job.settings
    require_device(settings["device"], "consensus")
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    counts, progress = settings["rerun_on_code_change"], job.scratch / "rows"
    kept = KeptRows(job.folder, [RUNS], SUBJECT_UNIT, counts, job.report, progress=progress)
    units: list[tuple[str, str]] = []
    runs = list(_models(settings, job.results / "federated"))
    for index, one in enumerate(runs, 1):
        loaded = None if one.failure else _loaded(one)
        for name, variant in settings["variants"].items():
            unit = (one.facts["subject"], name)
            units.append(unit)
            text = _text(one, settings, job.results)
            about = [only(settings, *SHARED), variant, one.failure, one.facts["val_ppl_last10"]]
            about += [
                loaded.sha256 if loaded else "",
                "" if text is None else arrays_sha256([text]),
            ]
            identity = {"config_hash": digest(about), "code_hash": settings["code"]}
            if kept.get(unit, identity) is not None:
                continue
            rows = _rows(one, loaded, name, variant, text, settings)
            named = [{**one.facts, "variant": name, **row, **identity} for row in rows]
            kept.put(unit, {RUNS.name: named})
            job.saved()
            ends = ", ".join(f"{row['applied']} layers {row['lambda1']}" for row in rows)
            job.report(f"{unit[0]}, {name}: lambda1 after {ends}")
        job.report.advance("consensus of runs", index, len(runs), str(one.facts["subject"]))
    provenance = {
        "settings": without(settings, "rerun_on_code_change", "draws_per_batch"),
        "versions": versions(),
    }
    kept.write(units, provenance)


def _models(settings: Mapping[str, Any], federated: Path) -> Iterator[Run]:
    """Yield the initial models, then every kept model of every run."""
    initial = {}
    for entry in settings["jobs"]:
        axes = RunJob(**entry["axes"])
        initial[axes.backbone, axes.depth, axes.seed] = axes
    for (backbone, depth, seed), axes in sorted(initial.items()):
        shape = _shape(axes, settings["model"])
        nothing = dict.fromkeys(
            ("clients", "setting", "local_steps", "beta", "algorithm", "value", "val_ppl_last10")
        )
        facts = {
            "subject": f"initial backbone={backbone} depth={depth} seed={seed}",
            "kind": "initial", "backbone": backbone, "depth": depth, "seed": seed, "round": 0,
            **nothing,
        }  # fmt: skip
        yield Run(facts, shape, None, unmeasurable(shape), _path(axes))
    for entry in settings["jobs"]:
        axes, folder = RunJob(**entry["axes"]), federated / entry["path"]
        found = rows(folder)
        for value in entry["values"]:
            for wanted in settings["rounds"]:
                if wanted:
                    yield _run(axes, entry["path"], folder, found[value], wanted, settings["model"])


def _run(
    axes: RunJob,
    path: str,
    folder: Path,
    row: Mapping[str, Any],
    wanted: str | int,
    model: Mapping[str, Any],
) -> Run:
    shape = _shape(axes, model)
    at = int(row["rounds"]) if wanted == ROUND_LAST else int(wanted)
    failed = row["status"] == "failed"
    facts = {
        **axes._asdict(),
        "subject": f"{path}/{row['value']} round={wanted}",
        "kind": "run",
        "value": row["value"],
        "round": at,
        "val_ppl_last10": None if failed else row["val_ppl_last10"],
    }
    failure = unmeasurable(shape)
    if failed and (wanted == ROUND_LAST or at > last_round(row)):
        failure = f"training failed in round {row['failed_round']}: {row['failure']}"
    number = None if wanted == ROUND_LAST else int(wanted)
    kept = None if failure else file(folder, row["value"], number)
    return Run(facts, shape, kept, failure, _path(axes))


def _shape(axes: RunJob, model: Mapping[str, Any]) -> Architecture:
    return Architecture(mixers=BACKBONES[axes.backbone](axes.depth), **model)


def _path(axes: RunJob) -> str:
    return partition_path(axes.setting, axes.beta, axes.clients)


def _loaded(one: Run) -> loading.Loaded:
    if one.file is None:
        return loading.new(one.shape, one.facts["seed"])
    found = read(one.file)
    model = loading.with_params(found.shape, found.params)
    return loading.Loaded(found.shape, model, "federated", loading.digest(found.params))


def _text(one: Run, settings: Mapping[str, Any], results: Path) -> np.ndarray | None:
    if settings["source"] != "text":
        return None
    path = results / "partition" / one.partition / "validation.parquet"
    return loading.validation_text(path, one.shape.padded_vocab_size)


def _rows(
    one: Run,
    loaded: loading.Loaded | None,
    name: str,
    variant: Mapping[str, Any],
    text: np.ndarray | None,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    applied = sorted({one.shape.depth, settings["depth"]})
    if loaded is None:
        status = "skipped" if one.failure == unmeasurable(one.shape) else "failed"
        return unmeasured(applied, status, str(one.failure))
    draws, tokens = range(settings["draws"]), settings["tokens"]
    seed = settings["seed"]
    if text is None:
        ids = uniform_ids(seed, draws, tokens, one.shape.vocab_size)
    else:
        ids = text_ids(seed, draws, tokens, text)
    subject = loading.subject(loaded, settings["precision"], settings["device"])
    iteration = Iteration(name, ALL_LAYERS, variant, {}, seed, max(applied))
    return end_rows(iteration, subject, ids, applied, settings["draws_per_batch"])
