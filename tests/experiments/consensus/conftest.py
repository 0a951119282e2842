"""Federated models, merges and everything made of them, once."""

import pytest

from tests.experiments import tiny as federated
from tests.experiments.consensus import made
from tests.experiments.merging import made as merging_made
from tests.experiments.merging import tiny as merging_tiny

VALUES = {"fedavg": [{}], "fedprox": [{"mu": 0.0}, {"mu": 0.5}]}


@pytest.fixture(scope="session")
def partition(tmp_path_factory):
    return federated.prepare(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory, partition):
    """results/ with models of two algorithms and two betas, merges, and consensus of all."""
    from fedscan.experiments.merging import specialists

    results = tmp_path_factory.mktemp("whole") / "results"
    listed = train(results, partition)
    root = results / "merging"
    merging_tiny.prepare(root)
    for task in merging_tiny.TASKS:
        merging_tiny.tune(root, task, specialists)
    merging_made.evaluate(root)
    merging_made.merge(root)
    made.iterate(results)
    made.iterate_runs(results, listed, federated.MODEL)
    made.iterate_merges(results)
    made.study(results)
    made.summarise(results)
    return results


def train(results, partition, betas=(0.0, 1.0), **settings):
    """Train in results/federated; returns the jobs as the stage's settings list them."""
    from fedscan.labels import value_label
    from tests import jobs

    listed = []
    for algorithm, values in VALUES.items():
        for beta in betas:
            job = federated.settings(algorithm, values) | {"keep_final_model": True} | settings
            job["job"] = job["job"] | {"beta": beta}
            path = f"algorithm={algorithm}/beta={beta:g}"
            folder = results / "federated" / path
            scratch = results / "checkpoints" / path
            jobs.run(federated.federated, job, folder, scratch=scratch, partition=partition)
            names = [value_label(value) for value in values]
            listed.append({"path": path, "axes": job["job"], "values": names})
    return listed
