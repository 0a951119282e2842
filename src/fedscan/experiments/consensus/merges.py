"""Stage ``consensus_merging``: a base, its specialists, and what they are merged into."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from fedscan.experiments.consensus import loading
from fedscan.experiments.consensus.ends import end_rows, unmeasurable, unmeasured
from fedscan.experiments.consensus.run_tables import MERGES, SUBJECT_UNIT
from fedscan.experiments.consensus.starts import text_ids, uniform_ids
from fedscan.experiments.consensus.variants import ALL_LAYERS, Iteration
from fedscan.experiments.merging.grid import model_file
from fedscan.experiments.merging.merge_tables import MERGES as MERGED
from fedscan.experiments.merging.numbers import Merged, merged, select
from fedscan.experiments.merging.tables import SPECIALISTS
from fedscan.io import parquet
from fedscan.io.digests import arrays_sha256
from fedscan.io.provenance import digest, versions
from fedscan.models.architecture import Architecture
from fedscan.operators import OPERATORS
from fedscan.operators.direction import merge
from fedscan.params.algebra import Params
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.model_files import TensorFile, read_base
from fedscan.pipeline.stage import Job

SHARED = ("seed", "tokens", "draws", "depth", "source", "precision", "device", "threads")
# Merge of the configuration -> operator; of a sweep the values that score best.
CHOSEN = {
    "average": "average",
    "best_task_arithmetic": "task_arithmetic",
    "best_ties": "ties",
}
# Merged without proximal term: all operators are there.
MU = 0.0


class Member(NamedTuple):
    """A model of a base.

    Attributes:
        facts: columns that name it.
        params: its values; None: there is none.
        failure: why, or None.
    """

    facts: Mapping[str, Any]
    params: Params | None
    failure: str | None


def run(job: Job) -> None:
    """Iterate every model that is not in the table yet, and write the table.

    Args:
        job: settings: ``bases``, ``seeds``, ``tasks``, ``epoch``, ``merges``, ``variants`` (name ->
            section), ``seed``, ``tokens``, ``draws``, ``depth``, ``source``, ``precision``,
            ``device``, ``threads``, ``draws_per_batch``, ``rerun_on_code_change`` and the ``code``
            fingerprint; results/merging; of source 'text' the file ``text`` below results. Its
            folder receives consensus_merges.parquet.

    Raises:
        ValueError: if a model is missing or damaged.
    """
    settings = job.settings
    require_device(settings["device"], "consensus")
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    counts, progress = settings["rerun_on_code_change"], job.scratch / "rows"
    kept = KeptRows(job.folder, [MERGES], SUBJECT_UNIT, counts, job.report, progress=progress)
    units: list[tuple[str, str]] = []
    for base in settings["bases"]:
        shape, params = read_base(job.results / "merging/bases" / f"base={base}")
        for member in _members(base, params, settings, job.results / "merging"):
            for name, variant in settings["variants"].items():
                unit = (str(member.facts["subject"]), name)
                units.append(unit)
                _measure(unit, member, shape, variant, kept, job)
    provenance = {
        "settings": without(settings, "rerun_on_code_change", "draws_per_batch"),
        "versions": versions(),
    }
    kept.write(units, provenance)


def _measure(
    unit: tuple[str, str],
    member: Member,
    shape: Architecture,
    variant: Mapping[str, Any],
    kept: KeptRows,
    job: Job,
) -> None:
    settings = job.settings
    ids, text_sha256 = _ids(shape, job)
    params = None if member.params is None else _wide(member.params)
    values = "" if params is None else loading.digest(params)
    about = [only(settings, *SHARED), variant, member.failure, values, text_sha256]
    identity = {"config_hash": digest(about), "code_hash": settings["code"]}
    if kept.get(unit, identity) is not None:
        job.report(f"{unit[0]}, {unit[1]}: already in the table")
        return
    applied = sorted({shape.depth, settings["depth"]})
    if reason := unmeasurable(shape):
        rows = unmeasured(applied, "skipped", reason)
    elif params is None:
        rows = unmeasured(applied, "failed", str(member.failure))
    else:
        loaded = loading.Loaded(shape, loading.with_params(shape, params), "merging", values)
        subject = loading.subject(loaded, settings["precision"], settings["device"])
        one = Iteration(unit[1], ALL_LAYERS, variant, {}, settings["seed"], max(applied))
        rows = end_rows(one, subject, ids, applied, settings["draws_per_batch"])
    named = [{**member.facts, "variant": unit[1], **row, **identity} for row in rows]
    kept.put(unit, {MERGES.name: named})
    job.saved()
    ends = ", ".join(f"{row['applied']} layers {row['lambda1']}" for row in rows)
    job.report(f"{unit[0]}, {unit[1]}: lambda1 after {ends}")


def _ids(shape: Architecture, job: Job) -> tuple[Any, str]:
    settings = job.settings
    draws, tokens, seed = range(settings["draws"]), settings["tokens"], settings["seed"]
    if settings["source"] == "text":
        text = loading.validation_text(job.results / settings["text"], shape.padded_vocab_size)
        return text_ids(seed, draws, tokens, text), arrays_sha256([text])
    return uniform_ids(seed, draws, tokens, shape.vocab_size), ""


def _wide(params: Params) -> Params:
    """Return a model in float32: it is what is iterated, whatever it is stored in."""
    return {name: tensor.float() for name, tensor in params.items()}


def _members(
    base: str, params: Params, settings: Mapping[str, Any], merging: Path
) -> Iterator[Member]:
    """Yield the base, then per seed its specialists and their merges."""
    nothing = dict.fromkeys(("seed", "task", "scale", "density"))
    facts = {"base": base, **nothing}
    yield Member({**facts, "subject": base, "kind": "base"}, params, None)
    found = _merged(settings, merging)
    for seed in settings["seeds"]:
        files, failure = [], None
        for task in settings["tasks"]:
            file, reason = _specialist(merging, base, task, seed, settings["epoch"])
            failure = failure or reason
            files.append(file)
            own = {**facts, "kind": "specialist", "seed": seed, "task": task}
            own["subject"] = f"{base} specialist task={task} seed={seed}"
            yield Member(own, None if file is None else _read(file, params), reason)
        for wanted in settings["merges"]:
            own = {**facts, "kind": wanted, "seed": seed}
            own["subject"] = f"{base} {wanted} seed={seed}"
            yield _made(own, found, params, files, failure, settings)


def _made(
    facts: dict[str, Any],
    found: Merged,
    params: Params,
    files: Sequence[Path | None],
    failure: str | None,
    settings: Mapping[str, Any],
) -> Member:
    operator = CHOSEN[facts["kind"]]
    rows = merged(found, facts["base"], operator, MU, settings["epoch"])
    best = select(rows)
    if best is None or failure is not None:
        return Member(facts, None, failure or "no value of the sweep is complete")
    own = {} if best.density is None else {"density": best.density}
    experts = [TensorFile(file) for file in files if file is not None]
    direction = OPERATORS[operator](params, experts, **own)
    facts |= {"scale": best.scale, "density": best.density}
    return Member(facts, merge(params, direction, best.scale), None)


def _merged(settings: Mapping[str, Any], merging: Path) -> Merged:
    folders = {
        f"base={base}/seed={seed}": {"base": base, "seed": seed}
        for base in settings["bases"]
        for seed in settings["seeds"]
    }
    rows = parquet.collect(folders, merging / "merges", MERGED)
    nothing = pd.DataFrame()
    return Merged(nothing, rows, nothing, nothing, {})


def _specialist(
    merging: Path, base: str, task: str, seed: int, epoch: int
) -> tuple[Path | None, str | None]:
    folder = merging / "specialists" / f"base={base}/task={task}/seed={seed}"
    table = parquet.read_frame(folder / "specialists.parquet", SPECIALISTS)
    rows = table[(table["mu"] == MU) & (table["epoch"] == epoch)]
    if len(rows) != 1:
        raise ValueError(f"{folder}/specialists.parquet: no row of mu 0, epoch {epoch}")
    (row,) = rows.to_dict("records")
    if row["status"] == "failed":
        return None, str(row["failure"])
    return folder / model_file(MU, epoch), None


def _read(file: Path, like: Params) -> Params:
    tensors = TensorFile(file)
    return {name: tensors[name] for name in like}
