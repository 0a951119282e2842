"""Stage ``merges``: merge the specialists of one base and seed, evaluate, and measure the way.

Nothing is trained here. A merge is made tensor by tensor from the specialists' files and is not
kept: what is kept are its accuracies and where it lies.
"""

import functools
import itertools

from fedscan.experiments.merging.bench import Bench
from fedscan.experiments.merging.grid import Merge, merges
from fedscan.experiments.merging.merge_tables import DISPLACEMENTS, MERGES, TASK_VECTORS
from fedscan.experiments.merging.rows import Group, HeldOut, held_out, merge_rows, task_vector_rows
from fedscan.io.provenance import digest, versions
from fedscan.pipeline.kept_rows import Rows
from fedscan.pipeline.keys import without
from fedscan.pipeline.stage import Job

TABLES = (MERGES, DISPLACEMENTS, TASK_VECTORS)


def run(job: Job) -> None:
    """Make and evaluate every merge that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``base``, ``seed``, ``tasks``, ``mus``, ``checkpoint_epochs``, ``operators``,
            ``gradient_examples`` (per task), ``evaluation_batch_size``, ``precision``,
            ``device``, ``threads``, ``rerun_on_code_change`` and the ``code`` fingerprint;
            results/merging holds base, specialists and evaluation sets. Its folder receives a table
            for each of ``TABLES``.
    """
    settings, report = job.settings, job.report
    bench = Bench(settings, job.results / "merging")
    kept = bench.kept_rows(job, TABLES)
    specialists = bench.specialists(settings["seed"])
    plan = merges(settings["mus"], settings["checkpoint_epochs"], settings["operators"])
    # The gradient at the base: computed when the first merge needs it, for all of them.
    start = functools.cache(lambda: held_out(bench))
    names: list[str] = []
    for mu, epoch in itertools.product(settings["mus"], settings["checkpoint_epochs"]):
        members = [specialists[task, mu, epoch] for task in settings["tasks"]]
        group = Group(bench, mu, epoch, members)
        for one in (None, *(m for m in plan if (m.mu, m.epoch) == (mu, epoch))):
            name = group.name if one is None else one.name
            identity = _identity(group, one)
            names.append(name)
            if kept.get((name,), identity) is not None:
                report(f"{name}: already in the tables")
                continue
            tables = _rows(group, one, start())
            named = {
                table.name: [{"model": name, **r, **identity} for r in tables.get(table.name, [])]
                for table in TABLES
            }
            kept.put((name,), named)
            job.saved()
            found = ", ".join(f"{r['evaluated_on']} {r['accuracy']}" for r in named[MERGES.name])
            report(f"{name}: {found or 'task vectors'}")
            report.advance("merges", len(names), len(plan), name)
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "versions": versions(),
    }
    kept.write([(name,) for name in names], provenance)


def _identity(group: Group, one: Merge | None) -> dict[str, str]:
    bench = group.bench
    merged = None if one is None else one._asdict()
    facts = [bench.facts(), list(bench.tasks), bench.settings["gradient_examples"]]
    models = [member.sha256 for member in group.members]
    return {
        "config_hash": digest([merged, group.name, models, facts]),
        "code_hash": bench.settings["code"],
    }


def _rows(group: Group, one: Merge | None, start: HeldOut) -> Rows:
    if one is None:
        return {TASK_VECTORS.name: task_vector_rows(group, start)}
    return merge_rows(group, one, start)
