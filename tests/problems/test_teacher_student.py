"""The compiled and the generic path are one run; partitions, projection, total variation."""

import itertools

import numpy as np
import pytest
import torch

from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.local_phase import local_phase
from fedscan.measure.total_variation import distances
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import Shape, blocks, flat
from fedscan.models.selective_ssm.stability import Margins, certify, project
from fedscan.params.algebra import add, norm, subtract
from fedscan.params.permutation import permute
from fedscan.problems.teacher_student import (
    ProjectedSgd,
    TeacherStudentProblem,
    permutation_groups,
    phase_of,
    projected,
    shards,
    to_params,
    to_vector,
)

SHAPE, MARGINS = Shape(4, 4), Margins(0.4, 0.6)
HYPERPARAMETERS = {
    "fedavg": {},
    "fedprox": {"mu": 0.3},
    "scaffold": {
        "refresh_every": 1, "correction_scale": 0.5, "control_lr": 0.5, "control_bound": 10.0,
        "estimate": "mean_gradient",
    },
    "fedsam": {"radius": 0.05},
    "fedadam": {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
    "feddyn": {"alpha": 0.1},
    "fedexp": {"epsilon": 1e-3},
    "diloco": {"outer_lr": 0.7, "outer_momentum": 0.9},
    "fedalign": {"align_mamba2_heads": 0, "permutation_groups": permutation_groups(SHAPE)},
}  # fmt: skip


def make(clients=4, local_steps=6, learning_rate=2.0):
    rng = np.random.default_rng(0)
    start = rng.integers(0, 4, (64, 1))
    tokens = ((start + np.cumsum(rng.integers(0, 2, (64, 16)), axis=1)) % 4).astype(np.uint8)
    parts = shards(tokens, clients, "dominant", 0)
    return TeacherStudentProblem(
        SHAPE, MARGINS, parts, tokens[:8], local_steps, 8, learning_rate, seed=0
    )


def train(problem, algorithm, phase, rounds=3):
    wrapped = projected(algorithm, MARGINS)
    start = engine.initial_state(problem, wrapped)
    return list(engine.run(problem, wrapped, rounds, start, phase))


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedexp", "diloco", "fedadam"])
def test_compiled_and_generic_paths_are_the_same_run(name):
    problem, algorithm = make(), ALGORITHMS[name](**HYPERPARAMETERS[name])
    phase = phase_of(algorithm)
    assert phase is not local_phase
    for ours, other in zip(
        train(problem, algorithm, phase), train(problem, algorithm, local_phase), strict=True
    ):
        gap = norm(subtract(ours.state.params, other.state.params))
        assert gap < 2e-6 * norm(ours.state.params)
        assert ours.val_loss == pytest.approx(other.val_loss, rel=1e-5)
        for a, b in zip(ours.outcomes, other.outcomes, strict=True):
            assert a.losses.numpy() == pytest.approx(b.losses.numpy(), rel=1e-5)
            assert a.norms.numpy() == pytest.approx(b.norms.numpy(), rel=1e-4)
            assert a.trace["displacement"] == pytest.approx(b.trace["displacement"], rel=1e-4)
            assert a.trace["projected"] == b.trace["projected"]
            assert a.trace["stable"]
            assert b.trace["stable"]
    assert sum(outcome.trace["projected"] for outcome in ours.outcomes) > 0


@pytest.mark.parametrize("name", ["scaffold", "fedsam", "feddyn"])
def test_other_local_rules_take_the_generic_path(name):
    algorithm = ALGORITHMS[name](**HYPERPARAMETERS[name])
    assert phase_of(algorithm) is local_phase


@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
def test_all_nine_run_and_stay_in_the_stability_set(name):
    problem, algorithm = make(learning_rate=0.2), ALGORITHMS[name](**HYPERPARAMETERS[name])
    results = train(problem, algorithm, phase_of(algorithm), 2)
    for result in results:
        layer = blocks(to_vector(result.state.params), SHAPE)
        assert certify(layer, MARGINS).stable
    assert np.isfinite(results[-1].val_loss)


def test_the_server_averages_then_projects():
    problem = make()
    result = train(problem, ALGORITHMS["fedavg"](), phase_of(ALGORITHMS["fedavg"]()), 1)[0]
    local = [to_vector(add(result.previous, update)).astype(float) for update in result.updates]
    mean = np.mean(local, axis=0)
    wanted = flat(project(blocks(mean, SHAPE), MARGINS))
    assert np.abs(to_vector(result.state.params) - wanted).max() < 1e-6


def test_local_steps_by_hand():
    problem = make(clients=1, local_steps=2, learning_rate=0.5)
    algorithm = ALGORITHMS["fedprox"](mu=0.3)
    result = train(problem, algorithm, phase_of(algorithm), 1)[0]
    start = to_vector(problem.initial_params()).astype(float)
    point = start
    for rows in problem.indices(0, 1):
        _, gradient = cpu.gradient(point, problem.client_tokens[0][rows], SHAPE)
        point = point - 0.5 * (gradient + 0.3 * (point - start))
        point = flat(project(blocks(point, SHAPE), MARGINS))
    assert np.abs(to_vector(result.state.params) - point).max() < 1e-6


def test_iid_shards_are_a_partition():
    tokens = np.arange(64 * 4).reshape(64, 4).astype(np.uint8)
    parts = shards(tokens, 4, "iid", 3)
    assert [len(part) for part in parts] == [16] * 4
    together = np.concatenate(parts)
    assert np.array_equal(together[np.argsort(together[:, 0])], tokens[np.argsort(tokens[:, 0])])
    assert not np.array_equal(parts[0], shards(tokens, 4, "iid", 4)[0])


def test_dominant_shards_are_sorted_by_token_then_share():
    tokens = np.array([[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 2], [0, 0, 1, 2]], np.uint8)
    parts = shards(tokens, 4, "dominant", 0)
    assert [part[0].tolist() for part in parts] == [
        [0, 0, 1, 2], [0, 0, 0, 0], [1, 1, 0, 2], [1, 1, 1, 0],
    ]  # fmt: skip


def test_bad_partitions_are_refused():
    tokens = np.zeros((10, 4), np.uint8)
    with pytest.raises(ValueError, match="10 sequences cannot be cut into 4 equal shards"):
        shards(tokens, 4, "iid", 0)
    with pytest.raises(ValueError, match="partition 'sorted' is not known"):
        shards(tokens, 2, "sorted", 0)


def test_batches_depend_on_client_round_and_seed_alone():
    one, two = make(), make(clients=4)
    assert np.array_equal(one.indices(1, 2), two.indices(1, 2))
    assert not np.array_equal(one.indices(1, 2), one.indices(1, 3))
    assert not np.array_equal(one.indices(1, 2), one.indices(2, 2))
    assert one.indices(0, 1).max() < 16


def test_reordered_states_are_the_same_function():
    problem = make()
    params = problem.initial_params()
    (group,) = permutation_groups(SHAPE)["state"]
    moved = permute(params, group, [2, 0, 3, 1])
    assert problem.evaluate(moved) == pytest.approx(problem.evaluate(params), abs=1e-6)
    assert not torch.equal(moved["W_B"], params["W_B"])


def test_vectors_and_blocks_are_inverse():
    vector = np.arange(float(SHAPE.parameters)).astype(np.float32)
    assert np.array_equal(to_vector(to_params(vector, SHAPE)), vector)


def test_projected_sgd_traces_its_path():
    params = to_params(np.zeros(SHAPE.parameters, np.float32) - 1, SHAPE)
    optimizer = ProjectedSgd(list(params.values()), 0.5, MARGINS)
    for tensor in params.values():
        tensor.grad = torch.zeros_like(tensor)
    params["W_B"].grad += 1.0
    optimizer.step()
    trace = optimizer.trace()
    # 16 entries of W_delta are lifted to the floor; A = -1 is inside already.
    assert trace["projected"] == 16
    assert trace["stable"]
    floor = float(params["W_delta"][0, 0])
    assert trace["displacement"] == pytest.approx(np.sqrt(16 * (floor + 1) ** 2 + 16 * 0.25))


def test_total_variation_of_known_distributions():
    # Disjoint whole sequences: TV to the mixture of two is 1/2; the same tokens on every scale.
    one = np.array([[0, 1, 0, 1], [0, 1, 0, 1]], np.uint8)
    other = np.array([[1, 0, 1, 0], [1, 0, 1, 0]], np.uint8)
    found = distances([one, other], [0.5, 0.5], 2)
    assert found.sequence.tolist() == [0.5, 0.5]
    assert found.unigram.tolist() == [0.0, 0.0]
    assert found.bigram == pytest.approx([1 / 6, 1 / 6])
    same = distances([one, one, one], [1 / 3] * 3, 2)
    assert np.abs(np.concatenate(same)).max() < 1e-12
    # K clients with sequences that nobody shares: (K - 1) / K, as the paper's 0.56 = 0.75^2 at K=4.
    unique = np.array(list(itertools.product(range(5), repeat=3)), np.uint8)
    parts = np.split(unique[:40], 4)
    assert distances(parts, [0.25] * 4, 5).sequence == pytest.approx([0.75] * 4)
