"""What every algorithm must satisfy, over the whole registry."""

import inspect

import numpy as np
import pytest
import torch

from fedscan.config.algorithms import Hyperparameters
from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.build import build
from fedscan.federated.local_phase import Diverged
from fedscan.params.algebra import clone
from fedscan.problems.quadratic import QuadraticProblem
from tests.federated.conformance import DEGENERATE, FACTS, ROWS

NAMES = sorted(ALGORITHMS)


def ordinary(name):
    return build(name, ROWS[name].ordinary, FACTS)


def spd_problem(clients=3, dimension=4, local_steps=5, learning_rate=0.05, seed=0, order=None):
    rng = np.random.default_rng(seed)
    matrices, optima = [], []
    for _ in range(clients):
        m = rng.normal(size=(dimension, dimension))
        matrices.append(torch.from_numpy(m @ m.T / dimension + np.eye(dimension)))
        optima.append(torch.from_numpy(rng.normal(size=dimension)))
    order = order or range(clients)
    return QuadraticProblem(
        [matrices[k] for k in order], [optima[k] for k in order], local_steps, learning_rate
    )


def final(problem, algorithm, rounds):
    state = engine.initial_state(problem, algorithm)
    for result in engine.run(problem, algorithm, rounds, state):
        state = result.state
    return state


def test_conformance_table_covers_the_registry():
    assert sorted(ROWS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_configuration_keys_are_the_factorys_arguments(name):
    section = Hyperparameters.model_fields[name].annotation
    section = next(a for a in getattr(section, "__args__", [section]) if a is not type(None))
    parameters = inspect.signature(ALGORITHMS[name]).parameters
    # What the model offers is not configuration.
    assert list(section.model_fields) == [p for p in parameters if p != "permutation_groups"]


@pytest.mark.parametrize("name", NAMES)
def test_reduces_the_objective(name):
    problem = spd_problem()
    best = torch.linalg.solve(
        sum(problem._matrices),
        sum(A @ b for A, b in zip(problem._matrices, problem._optima, strict=True)),
    )
    floor = problem.evaluate({"w": best})
    state = final(problem, ordinary(name), 30)
    start = problem.evaluate(problem.initial_params()) - floor
    assert problem.evaluate(state.params) - floor < 0.3 * start


@pytest.mark.parametrize("name", NAMES)
def test_three_and_three_rounds_are_six(name):
    problem, algorithm = spd_problem(), ordinary(name)
    whole = final(problem, algorithm, 6)
    half = final(problem, algorithm, 3)
    for result in engine.run(problem, algorithm, 6, half):
        half = result.state
    assert torch.equal(whole.params["w"], half.params["w"])
    assert whole.round_index == half.round_index == 6
    for a, b in zip([whole.server, *whole.clients], [half.server, *half.clients], strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k][n], b[k][n]) for k in a for n in a[k])


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_not_mutated(name):
    problem, algorithm = spd_problem(), ordinary(name)
    before = final(problem, algorithm, 2)
    copies = [clone(part) for part in parts(before)]
    next(engine.run(problem, algorithm, 3, before))
    for part, copy in zip(parts(before), copies, strict=True):
        assert all(torch.equal(part[name], copy[name]) for name in copy)


def parts(state):
    trees = [state.server, *state.clients]
    return [state.params, *(params for tree in trees for params in tree.values())]


@pytest.mark.parametrize("name", NAMES)
def test_order_of_clients_is_irrelevant(name):
    algorithm = ordinary(name)
    there = final(spd_problem(order=[0, 1, 2]), algorithm, 5)
    back = final(spd_problem(order=[2, 0, 1]), algorithm, 5)
    # float64 sums in another order: rounding only.
    torch.testing.assert_close(there.params["w"], back.params["w"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(DEGENERATE))
def test_degenerate_settings_are_fedavg(name):
    problem = spd_problem()
    reference = final(problem, ALGORITHMS["fedavg"](), 6)
    found = final(problem, build(name, DEGENERATE[name], FACTS), 6)
    assert torch.equal(reference.params["w"], found.params["w"])


@pytest.mark.parametrize("name", NAMES)
def test_identical_clients_are_one_client(name):
    one = spd_problem(clients=1)
    many = QuadraticProblem(one._matrices * 4, one._optima * 4, 5, 0.05)
    algorithm = ordinary(name)
    alone, together = final(one, algorithm, 6), final(many, algorithm, 6)
    torch.testing.assert_close(together.params["w"], alone.params["w"], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["scaffold", "fedexp", "fedalign"])
def test_without_disagreement_there_is_nothing_to_correct(name):
    one = spd_problem(clients=1)
    many = QuadraticProblem(one._matrices * 4, one._optima * 4, 5, 0.05)
    found = final(many, ordinary(name), 6)
    plain = final(one, ALGORITHMS["fedavg"](), 6)
    torch.testing.assert_close(found.params["w"], plain.params["w"], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_client_ends_the_run_with_its_name(name, value):
    problem = spd_problem()
    gradient = problem.gradient

    def broken(params, batch, scale):
        loss, slope = gradient(params, batch, scale)
        return (loss * value, slope) if batch == 2 and broken.rounds > 1 else (loss, slope)

    batches = problem.batches

    def counting(client, round_index):
        broken.rounds = round_index
        return batches(client, round_index)

    problem.gradient, problem.batches = broken, counting
    algorithm = ordinary(name)
    rounds = engine.run(problem, algorithm, 5, engine.initial_state(problem, algorithm))
    assert next(rounds).state.round_index == 1
    with pytest.raises(Diverged, match="non-finite loss in local step 1 at client 2, round 2") as e:
        next(rounds)
    assert (e.value.client, e.value.round_index) == (2, 2)
