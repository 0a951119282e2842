"""Stage ``specialist_accuracy``: a base and all its specialists, each evaluated once per task."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fedscan.experiments.merging.bench import Bench, Specialist
from fedscan.experiments.merging.grid import specialist_name
from fedscan.experiments.merging.merge_tables import SPECIALIST_ACCURACY
from fedscan.io.provenance import digest, versions
from fedscan.params.algebra import Params
from fedscan.pipeline.keys import without
from fedscan.pipeline.model_files import read_model
from fedscan.pipeline.stage import Job

ZERO_SHOT = "zero_shot"


class _Model(NamedTuple):
    """One model to evaluate; a base has no specialist."""

    name: str
    facts: dict[str, Any]
    specialist: Specialist | None


def run(job: Job) -> None:
    """Evaluate every model that is not in the table yet, and write the table.

    Args:
        job: settings: ``base``, ``tasks``, ``seeds``, ``mus``, ``checkpoint_epochs``,
            ``evaluation_batch_size``, ``precision``, ``device``, ``threads``,
            ``rerun_on_code_change`` and the ``code`` fingerprint; results/merging holds base,
            specialists and evaluation sets. Its folder receives specialist_accuracy.parquet.
    """
    settings, report = job.settings, job.report
    bench = Bench(settings, job.results / "merging")
    kept = bench.kept_rows(job, [SPECIALIST_ACCURACY])
    models = list(_models(bench))
    for index, model in enumerate(models, 1):
        sha = bench.base_sha256 if model.specialist is None else model.specialist.sha256
        parts = [model.facts, sha, bench.facts()]
        identity = {"config_hash": digest(parts), "code_hash": settings["code"]}
        if kept.get((model.name,), identity) is not None:
            report(f"{model.name}: already in the table")
            continue
        failure = None if model.specialist is None else model.specialist.failure
        rows = bench.accuracies(_params(bench, model), failure)
        named = [{"model": model.name, **model.facts, **row, **identity} for row in rows]
        kept.put((model.name,), {SPECIALIST_ACCURACY.name: named})
        job.saved()
        text = ", ".join(f"{row['evaluated_on']} {row['accuracy']}" for row in rows)
        report(f"{model.name}: {text}")
        report.advance("specialists", index, len(models), model.name)
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "versions": versions(),
    }
    kept.write([(model.name,) for model in models], provenance)


def _models(bench: Bench) -> Iterator[_Model]:
    settings = bench.settings
    nothing = dict.fromkeys(("seed", "trained_on", "mu", "epoch"))
    yield _Model(ZERO_SHOT, {"kind": ZERO_SHOT, **nothing}, None)
    for seed in settings["seeds"]:
        found = bench.specialists(seed)
        for task in settings["tasks"]:
            for mu in settings["mus"]:
                for epoch in settings["checkpoint_epochs"]:
                    facts = {"seed": seed, "trained_on": task, "mu": mu, "epoch": epoch}
                    name = specialist_name(seed, task, mu, epoch)
                    yield _Model(name, {"kind": "specialist", **facts}, found[task, mu, epoch])


def _params(bench: Bench, model: _Model) -> Params | None:
    if model.specialist is None:
        return bench.base
    path = model.specialist.path
    return None if path is None else read_model(path, bench.shape)
