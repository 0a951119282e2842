"""Algorithms on quadratics against closed forms, and one row by hand at a non-degenerate point."""

import math

import numpy as np
import pytest
import torch

from fedscan.federated import engine
from fedscan.federated.algorithm import LocalContext, LocalResult
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.problems.quadratic import QuadraticProblem
from tests.federated.conformance import SCAFFOLD
from tests.federated.test_conformance import final, spd_problem
from tests.oracles import quadratic as oracle


def two_clients(local_steps=4, learning_rate=0.05):
    """The two-client quadratic: a = (1, 4), b = (0, 1); its optimum is 0.8."""
    matrices = [torch.tensor([[a]], dtype=torch.float64) for a in (1.0, 4.0)]
    optima = [torch.tensor([b], dtype=torch.float64) for b in (0.0, 1.0)]
    return QuadraticProblem(matrices, optima, local_steps, learning_rate)


def trajectory(problem, algorithm, rounds):
    state = engine.initial_state(problem, algorithm)
    return [r.state.params["w"].numpy() for r in engine.run(problem, algorithm, rounds, state)]


@pytest.mark.parametrize(
    ("name", "hyperparameters", "mu", "six_digits"),
    [("fedavg", {}, 0.0, 0.760929), ("fedprox", {"mu": 1.0}, 1.0, 0.760790)],
)
def test_fixed_points(name, hyperparameters, mu, six_digits):
    As = [np.array([[1.0]]), np.array([[4.0]])]
    bs = [np.array([0.0]), np.array([1.0])]
    exact = oracle.averaging_fixed_point(As, bs, 0.05, 4, mu)
    assert exact[0] == pytest.approx(six_digits, abs=5e-7)
    found = final(two_clients(), ALGORITHMS[name](**hyperparameters), 120).params["w"]
    assert found.item() == pytest.approx(exact[0], abs=1e-12)


def test_one_local_phase_is_a_matrix_power():
    problem = spd_problem(clients=1)
    A, b = problem._matrices[0].numpy(), problem._optima[0].numpy()
    found = trajectory(problem, ALGORITHMS["fedavg"](), 1)[0]
    np.testing.assert_allclose(found, oracle.local_map(A, b, 0.05, 5, np.zeros(4)), atol=1e-14)


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_spd_fixed_point(mu):
    problem = spd_problem()
    As = [A.numpy() for A in problem._matrices]
    bs = [b.numpy() for b in problem._optima]
    found = final(problem, ALGORITHMS["fedprox"](mu=mu), 160).params["w"].numpy()
    exact = oracle.averaging_fixed_point(As, bs, 0.05, 5, mu)
    np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("estimate", ["mean_gradient", "displacement"])
def test_scaffold_trajectory(estimate):
    published = [0.2952, 0.5038, 0.6306, 0.7040, 0.7457, 0.7694, 0.7827, 0.7903]
    algorithm = ALGORITHMS["scaffold"](**SCAFFOLD | {"estimate": estimate})
    found = np.array(trajectory(two_clients(), algorithm, 8))[:, 0]
    np.testing.assert_allclose(found, published, atol=5e-5)
    As = [np.array([[1.0]]), np.array([[4.0]])]
    bs = [np.array([0.0]), np.array([1.0])]
    exact = np.array(oracle.scaffold_trajectory(As, bs, 0.05, 4, 8))[:, 0]
    np.testing.assert_allclose(found, exact, atol=1e-13)


def test_scaffold_reaches_the_optimum_where_fedavg_does_not():
    problem = spd_problem()
    As = [A.numpy() for A in problem._matrices]
    bs = [b.numpy() for b in problem._optima]
    best = oracle.optimum(As, bs)
    corrected = final(problem, ALGORITHMS["scaffold"](**SCAFFOLD), 120).params["w"].numpy()
    plain = final(problem, ALGORITHMS["fedavg"](), 120).params["w"].numpy()
    assert np.abs(corrected - best).max() < 1e-10
    assert np.abs(plain - best).max() > 1e-3


@pytest.mark.parametrize("refresh_every", [1, 3])
def test_scaffold_server_variate_is_the_mean_of_the_clients(refresh_every):
    changed = {"refresh_every": refresh_every, "control_lr": 0.3, "control_bound": 0.5}
    problem, algorithm = spd_problem(), ALGORITHMS["scaffold"](**SCAFFOLD | changed)
    refreshed = []
    for result in engine.run(problem, algorithm, 7, engine.initial_state(problem, algorithm)):
        clients = [client["control"]["w"] for client in result.state.clients]
        mean = torch.stack(clients).mean(0)
        torch.testing.assert_close(result.state.server["control"]["w"], mean, rtol=0, atol=1e-15)
        assert all(float(c.norm()) <= 0.5 + 1e-12 for c in clients)
        refreshed.append(tuple(float(c[0]) for c in clients))
    changes = [r + 1 for r in range(1, 7) if refreshed[r] != refreshed[r - 1]]
    assert changes == [r for r in range(2, 8) if r % refresh_every == 0]
    assert (refreshed[0][0] != 0) == (refresh_every == 1)


def test_scaffold_variate_of_one_full_batch_step_is_the_gradient():
    problem = two_clients(local_steps=1)
    state = final(problem, ALGORITHMS["scaffold"](**SCAFFOLD), 1)
    gradients = [problem.gradient(problem.initial_params(), k, 1.0)[1]["w"] for k in (0, 1)]
    for client, gradient in zip(state.clients, gradients, strict=True):
        torch.testing.assert_close(client["control"]["w"], gradient, rtol=0, atol=1e-15)


def by_hand(server=None, client=None, local_steps=4):
    tree = {"w": torch.tensor([1.0, -2.0], dtype=torch.float64)}
    return LocalContext(tree, server or {}, client or {}, 1, local_steps, 0.5)


def gradient_field(params, batch):
    """g(w) = (3 w_1 + 1, w_2^2): at (2, 1) it is (7, 1)."""
    w = params["w"]
    return torch.zeros((), dtype=torch.float64), {"w": torch.stack([3 * w[0] + 1, w[1] ** 2])}


AWAY = {"w": torch.tensor([2.0, 1.0], dtype=torch.float64)}
UPDATE = {"w": torch.tensor([1.0, 3.0], dtype=torch.float64)}


def test_fedprox_direction_by_hand():
    step = ALGORITHMS["fedprox"](mu=0.5).local_gradient(gradient_field, AWAY, None, by_hand())
    # (7, 1) + 0.5 ((2, 1) - (1, -2))
    assert step.direction["w"].tolist() == [7.5, 2.5]


def test_scaffold_direction_and_message_by_hand():
    control = {"w": torch.tensor([0.5, 4.0], dtype=torch.float64)}
    own = {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)}
    context = by_hand({"control": control}, {"control": own})
    algorithm = ALGORITHMS["scaffold"](**SCAFFOLD | {"correction_scale": 0.1, "control_lr": 0.5})
    step = algorithm.local_gradient(gradient_field, AWAY, None, context)
    # (7, 1) + 0.1 ((0.5, 4) - (1, 2)); the observation is the raw gradient
    np.testing.assert_allclose(step.direction["w"], [6.95, 1.2], atol=1e-15)
    assert step.observation["w"].tolist() == [7.0, 1.0]
    message, state = algorithm.client_message(LocalResult(AWAY, UPDATE, step.observation), context)
    assert message["update"]["w"].tolist() == [1.0, 3.0]
    # halfway from (1, 2) to (7, 1)
    assert message["control"]["w"].tolist() == state["control"]["w"].tolist() == [4.0, 1.5]


def test_scaffold_displacement_estimate_by_hand():
    control = {"w": torch.tensor([0.5, 4.0], dtype=torch.float64)}
    own = {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)}
    context = by_hand({"control": control}, {"control": own}, local_steps=2)
    algorithm = ALGORITHMS["scaffold"](**SCAFFOLD | {"estimate": "displacement"})
    message, _ = algorithm.client_message(LocalResult(AWAY, UPDATE, None), context)
    # (1, 2) - (0.5, 4) + ((1, -2) - (2, 1)) / (2 * 0.5)
    assert message["control"]["w"].tolist() == [-0.5, -5.0]


def test_scaffold_bound_by_hand():
    zero = {"control": {"w": torch.zeros(2, dtype=torch.float64)}}
    algorithm = ALGORITHMS["scaffold"](**SCAFFOLD | {"control_bound": 0.5})
    raw = {"w": torch.tensor([3.0, 4.0], dtype=torch.float64)}
    message, _ = algorithm.client_message(LocalResult(AWAY, UPDATE, raw), by_hand(zero, zero))
    np.testing.assert_allclose(message["control"]["w"], [0.3, 0.4], atol=1e-15)


def test_fedsam_direction_by_hand():
    step = ALGORITHMS["fedsam"](radius=5.0).local_gradient(gradient_field, AWAY, None, by_hand())
    # u = 5 (7, 1)/sqrt(50); gradient at (2, 1) + u
    u = 5 / math.sqrt(50)
    np.testing.assert_allclose(step.direction["w"], [3 * (2 + 7 * u) + 1, (1 + u) ** 2], rtol=1e-12)


def test_fedsam_survives_a_zero_gradient():
    def flat(params, batch):
        return torch.zeros(()), {"w": torch.zeros(2, dtype=torch.float64)}

    step = ALGORITHMS["fedsam"](radius=0.1).local_gradient(flat, AWAY, None, by_hand())
    assert step.direction["w"].tolist() == [0.0, 0.0]


def test_fedsam_needs_full_precision():
    assert ALGORITHMS["fedsam"](radius=0.1).full_precision
    assert not ALGORITHMS["fedavg"]().full_precision


@pytest.mark.parametrize(("update", "first_step"), [(1e-3, 0.0909), (1.0, 0.9901)])
def test_fedadam_first_step(update, first_step):
    # v = 0 at start and no bias correction, unlike several public implementations.
    algorithm = ALGORITHMS["fedadam"](server_lr=1.0, beta1=0.9, beta2=0.99, tau=1e-3)
    params = {"w": torch.zeros(1, dtype=torch.float64)}
    message = {"update": {"w": torch.tensor([update], dtype=torch.float64)}}
    step = algorithm.server_update(params, algorithm.init_server(params), message)
    by_formula = 0.1 * update / (math.sqrt(0.01 * update**2) + 1e-3)
    assert step.params["w"].item() == pytest.approx(by_formula, rel=1e-14)
    assert step.params["w"].item() == pytest.approx(first_step, abs=5e-5)


def test_fedadam_three_rounds_by_hand():
    algorithm = ALGORITHMS["fedadam"](server_lr=0.5, beta1=0.5, beta2=0.75, tau=0.25)
    params, state = {"w": torch.tensor([2.0], dtype=torch.float64)}, None
    m = v = 0.0
    w = 2.0
    for _, d in enumerate([1.0, -0.5, 0.25], start=1):
        state = state or algorithm.init_server(params)
        message = {"update": {"w": torch.tensor([d], dtype=torch.float64)}}
        params, state, _ = algorithm.server_update(params, state, message)
        m, v = 0.5 * m + 0.5 * d, 0.75 * v + 0.25 * d * d
        w += 0.5 * m / (math.sqrt(v) + 0.25)
        assert params["w"].item() == pytest.approx(w, rel=1e-14)


def test_weights_are_applied():
    # Clients 1 and 3 parts with updates 0 and 4: the mean update is 3.
    eye = torch.eye(1, dtype=torch.float64)
    optima = [torch.tensor([0.0], dtype=torch.float64), torch.tensor([4.0], dtype=torch.float64)]
    problem = QuadraticProblem([eye, eye], optima, 1, 1.0, weights=[0.25, 0.75])
    assert final(problem, ALGORITHMS["fedavg"](), 1).params["w"].item() == 3.0


def two_tensors(*values):
    return {"update": {"w": torch.tensor(values, dtype=torch.float64)}}


def server_steps(algorithm, updates):
    """Global parameters after each server step from zero, for scalar mean updates."""
    params = {"w": torch.zeros(1, dtype=torch.float64)}
    state, found = algorithm.init_server(params), []
    for _, update in enumerate(updates, start=1):
        params, state, _ = algorithm.server_update(params, state, two_tensors(update))
        found.append(params["w"].item())
    return found


def test_diloco_by_hand():
    # a = 0.7, b = 0.9, d = 1: steps 1.33, 1.897, 2.4073
    found = server_steps(ALGORITHMS["diloco"](outer_lr=0.7, outer_momentum=0.9), [1.0] * 3)
    np.testing.assert_allclose(found, [1.33, 3.227, 5.6343], rtol=1e-14)


def test_diloco_is_torchs_nesterov():
    rng = np.random.default_rng(0)
    updates = rng.normal(size=50)
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=0.3, momentum=0.9, nesterov=True)
    expected = []
    for update in updates:
        weight.grad = torch.tensor([-update], dtype=torch.float64)
        sgd.step()
        expected.append(weight.item())
    algorithm = ALGORITHMS["diloco"](outer_lr=0.3, outer_momentum=0.9)
    np.testing.assert_allclose(server_steps(algorithm, updates), expected, atol=1e-13)


def exp_step(updates, epsilon, weights=None):
    algorithm = ALGORITHMS["fedexp"](epsilon=epsilon)
    weights = weights or [1 / len(updates)] * len(updates)
    zero = {"w": torch.zeros(2, dtype=torch.float64)}
    messages = []
    for update in updates:
        tensor = {"w": torch.tensor(update, dtype=torch.float64)}
        context = LocalContext(zero, {}, {}, 1, 1, 0.1)
        messages.append(algorithm.client_message(LocalResult(tensor, tensor, None), context)[0])
    mean = {
        entry: {
            k: sum(p * m[entry][k] for p, m in zip(weights, messages, strict=True))
            for k in messages[0][entry]
        }
        for entry in messages[0]
    }
    return algorithm.server_update(zero, {}, mean)


@pytest.mark.parametrize(
    ("updates", "epsilon", "eta"),
    [
        ([[1.0, 2.0]] * 3, 1e-3, 1.0),
        # M orthogonal equal updates: M/2 up to epsilon
        ([[2.0, 0.0], [0.0, 2.0]], 1e-12, 1.0),
        ([[1.0, 0.0], [-1.0, 0.0]], 0.5, 2.0),
        # opposite pair of squared norm 1e-4: 1e-4 / 1e-6
        ([[1e-2, 0.0], [-1e-2, 0.0]], 1e-6, 100.0),
        ([[3.0, 0.0], [-1.0, 0.0]], 0.5, 5 / 2.5),
    ],
)
def test_fedexp_factor_by_hand(updates, epsilon, eta):
    step = exp_step(updates, epsilon)
    assert step.internals["eta_g"] == pytest.approx(eta, rel=1e-9)
    mean = np.mean(updates, axis=0)
    np.testing.assert_allclose(step.params["w"], eta * mean, rtol=1e-9, atol=1e-15)


def test_feddyn_reaches_the_optimum_of_two_clients():
    # Its fixed point is the optimum for any number of local steps.
    problem = two_clients(local_steps=10, learning_rate=0.2)
    found = trajectory(problem, ALGORITHMS["feddyn"](alpha=2.0), 60)
    assert found[-1][0] == pytest.approx(0.8, abs=1e-12)


def test_feddyn_reaches_the_optimum_in_several_dimensions():
    problem = spd_problem(local_steps=20, learning_rate=0.2)
    As = [A.numpy() for A in problem._matrices]
    bs = [b.numpy() for b in problem._optima]
    found = final(problem, ALGORITHMS["feddyn"](alpha=2.0), 60).params["w"].numpy()
    np.testing.assert_allclose(found, oracle.optimum(As, bs), atol=1e-8)


def test_feddyn_server_dual_is_the_mean_of_the_clients():
    problem, algorithm = spd_problem(), ALGORITHMS["feddyn"](alpha=0.3)
    for result in engine.run(problem, algorithm, 5, engine.initial_state(problem, algorithm)):
        duals = torch.stack([client["dual"]["w"] for client in result.state.clients])
        torch.testing.assert_close(
            result.state.server["dual"]["w"], duals.mean(0), rtol=0, atol=1e-14
        )


def test_feddyn_first_round_is_fedprox_with_a_longer_step():
    # From zero duals the clients are FedProx(alpha), and the server doubles the mean update.
    prox = trajectory(two_clients(), ALGORITHMS["fedprox"](mu=0.5), 1)[0]
    dyn = trajectory(two_clients(), ALGORITHMS["feddyn"](alpha=0.5), 1)[0]
    np.testing.assert_allclose(dyn, 2 * prox, atol=1e-15)


def test_feddyn_direction_by_hand():
    dual = {"dual": {"w": torch.tensor([0.5, 4.0], dtype=torch.float64)}}
    algorithm = ALGORITHMS["feddyn"](alpha=2.0)
    step = algorithm.local_gradient(gradient_field, AWAY, None, by_hand(client=dual))
    # (7, 1) + 2 ((2, 1) - (1, -2)) - (0.5, 4)
    np.testing.assert_allclose(step.direction["w"], [8.5, 3.0], rtol=1e-15)
    message, state = algorithm.client_message(LocalResult(AWAY, UPDATE, None), by_hand(client=dual))
    # (0.5, 4) - 2 (1, 3)
    np.testing.assert_allclose(state["dual"]["w"], [-1.5, -2.0], rtol=1e-15)
    assert message["update"]["w"].tolist() == [1.0, 3.0]
