"""The inequalities of the proofs: the field's own speed against each, and what breaks them."""

import numpy as np
import pytest
import torch

from fedscan.experiments.consensus import statements
from fedscan.experiments.consensus.instances import AXIS, KERNELS, instance
from fedscan.experiments.consensus.statements import (
    CAP,
    TOLERANCE,
    first_slack,
    gap_slacks,
    identity,
    invariance_slack,
    later_slack,
    points_at,
    sector_slack,
    slacks,
)
from fedscan.experiments.consensus.theory_rows import eigenvalues, violated
from fedscan.models.analysed_ssm import field, transfer
from fedscan.theory.consensus import c_eff, c_star, smallest_definite
from fedscan.theory.consensus_certificate import slack_radius

EPSILON = 0.05
CASES = [(kernel, n, tokens) for kernel in KERNELS for n, tokens in ((3, 1), (4, 2), (6, 4))]


def drawn(kernel, n=5, tokens=4, index=0, amount=1.0):
    return instance(0, kernel, amount, index, n, n + 1, tokens)


def sphere(rng, *shape):
    z = rng.standard_normal(shape)
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def in_cap(rng, low, high, *shape):
    """Tokens with |z^a| between two heights, of both signs."""
    z = sphere(rng, *shape)
    z[..., AXIS] = 0
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    b = rng.uniform(low, high, shape[:-1])
    z *= np.sqrt((1 - b) * (1 + b))[..., None]
    z[..., AXIS] = b * rng.choice([-1.0, 1.0], shape[:-1])
    return z


def spectral(one):
    return max(float(np.linalg.norm(k, 2)) for k in one.kernels)


def points(one, z):
    for layer, kernel in zip(one.layers(), one.kernels, strict=True):
        yield from points_at(z, layer, kernel)


@pytest.mark.parametrize(("kernel", "n", "tokens"), CASES)
def test_no_statement_is_violated_on_random_instances(kernel, n, tokens):
    for index in range(3):
        found = slacks(drawn(kernel, n, tokens, index), 40, EPSILON, np.random.default_rng(index))
        assert not [name for name, slack in found._asdict().items() if violated(slack)]
        assert found.identity > -1e-13
        proved = kernel in ("isotropic", "definite")
        assert (found.sector is not None) == proved
        assert (found.invariance is not None) == proved
        assert None not in (found.gap, found.first, found.later)


def test_without_a_gap_only_what_needs_none_is_tried():
    one = drawn("definite")
    even = one._replace(b_delta=np.full(5, 1.0), alpha=np.zeros(5), W_delta=np.zeros((5, 5)))
    found = slacks(even, 5, EPSILON, np.random.default_rng(0))
    assert found.gap == pytest.approx(0, abs=1e-14)  # gamma = Gamma = 0, and so is the middle
    assert found.first is found.later is found.sector is found.invariance is None


@pytest.mark.parametrize("index", range(3))
def test_20_is_the_weighted_mean_of_gaps(index):
    """z^T D z is a mean of lambda^mu with weights z^2: a second derivation, channel by channel."""
    one = drawn("indefinite", index=index)
    for point in points(one, sphere(np.random.default_rng(index), 100, 4, 5)):
        low, high = gap_slacks(point, one.constants)[:2]
        own = point.transfers[0, 0]
        middle = sum((own[AXIS] - own[mu]) * point.z[0, mu] ** 2 for mu in range(5))
        apart = 1 - point.b[0] ** 2
        assert low == pytest.approx(middle - one.constants.gamma * apart, abs=1e-14)
        assert high == pytest.approx(one.constants.gamma_upper * apart - middle, abs=1e-14)
        assert min(gap_slacks(point, one.constants)) >= -1e-14


@pytest.mark.parametrize("kernel", KERNELS)
def test_24_to_28_are_the_fields_own_speed(kernel):
    rng = np.random.default_rng(1)
    for index in range(3):
        one = drawn(kernel, index=index)
        for z in (sphere(rng, 50, 4, 5), in_cap(rng, 0.99, 1.0, 50, 4, 5)):
            for point in points(one, z):
                assert np.abs(identity(point) - point.speed).max() < 1e-13


def test_the_speed_is_the_derivative_along_the_flow():
    one, step = drawn("indefinite"), 1e-5
    z = sphere(np.random.default_rng(2), 20, 4, 5)
    layer = one.layers()[0]
    velocity = field(torch.from_numpy(z), layer, False).numpy()
    ahead, behind = (np.abs((z + side * step * velocity)[..., AXIS]) for side in (1, -1))
    for point, change in zip(points(one, z), (ahead - behind) / (2 * step), strict=True):
        np.testing.assert_allclose(point.speed, change, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("index", range(3))
def test_proposition_iv_1_1_holds_for_any_kernel_and_is_not_loose(kernel, index):
    one, rng = drawn(kernel, index=index), np.random.default_rng(index)
    found = [first_slack(p, one.constants) for p in points(one, in_cap(rng, CAP, 1, 300, 4, 5))]
    assert min(found) >= -TOLERANCE
    # On the cap's rim, where c (1 + c) is what b (1 + b) is, only the gap's own slack is left.
    near = list(points(one, in_cap(rng, CAP, CAP + 1e-3, 300, 4, 5)))
    speeds = [p.speed[0] / (1 - p.b[0]) for p in near]
    pulls = [p.z[0] @ p.kernel @ p.z[0] * one.constants.gamma * CAP * (1 + CAP) for p in near]
    ratio = [s / p for s, p in zip(speeds, pulls, strict=True) if p > 0]
    assert not ratio or 1 - 1e-3 < min(ratio) < 1.6


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("index", range(3))
def test_proposition_iv_1_2_holds_with_the_explicit_m(kernel, index):
    one, rng = drawn(kernel, index=index), np.random.default_rng(index)
    found, norm = one.constants, spectral(one)
    for epsilon in (0.01, 0.5):
        near = slack_radius(epsilon, CAP, norm, found.lambda_sum)
        for low, high in ((0, 1), (1 - 1e-6, 1)):
            z = in_cap(rng, low, high, 100, 4, 5)
            z[:, -1] = in_cap(rng, 1 - near, 1, 100, 5)
            made = [later_slack(p, found, norm, epsilon) for p in points(one, z)]
            assert min(made) >= -TOLERANCE


@pytest.mark.parametrize("kernel", ["isotropic", "definite"])
@pytest.mark.parametrize("amount", [0.1, 0.3, 1.0, 3.0])
def test_proposition_v_1_holds_above_the_threshold(kernel, amount):
    for index in range(3):
        one, rng = drawn(kernel, index=index, amount=amount), np.random.default_rng(index)
        found, norm, star = one.constants, spectral(one), c_star(one.kernels, AXIS)
        alpha, threshold = smallest_definite(one.kernels), c_eff(star, one.constants, 4)
        for c in (threshold + 1e-6, (1 + threshold) / 2):
            for low, high in ((0, 1), (1 - 1e-9, 1)):
                z = in_cap(rng, low, high, 100, 4, 5)
                z[:, -1] = in_cap(rng, c, 1, 100, 5)
                made = [sector_slack(p, found, alpha, star, norm, c) for p in points(one, z)]
                assert min(made) >= -TOLERANCE


@pytest.mark.parametrize("kernel", ["isotropic", "definite"])
def test_lemma_v_1_holds_everywhere_and_keeps_the_equator(kernel):
    for index in range(3):
        one, rng = drawn(kernel, index=index), np.random.default_rng(index)
        alpha, z = smallest_definite(one.kernels), sphere(rng, 200, 4, 5)
        made = [invariance_slack(p, one.constants, alpha) for p in points(one, z)]
        assert min(made) >= -TOLERANCE
        z[:, 0, AXIS] = 0
        z[:, 0] /= np.linalg.norm(z[:, 0], axis=-1, keepdims=True)
        assert all(point.speed[0] == 0 for point in points(one, z))


BROKEN = {
    "gap": ("gamma", 1.5),
    "first": ("gamma", 4.0),
    "later": ("gamma", 40.0),
    "invariance": ("gamma", 2.5),
    "sector": ("lambda_max", 0.02),
}


@pytest.mark.parametrize("statement", BROKEN)
def test_a_wrong_constant_is_found_out(statement, monkeypatch):
    name, factor = BROKEN[statement]
    one = drawn("definite", amount=0.3)
    wrong = one.constants._replace(**{name: factor * getattr(one.constants, name)})
    held = slacks(one, 60, EPSILON, np.random.default_rng(0))
    monkeypatch.setattr(type(one), "constants", property(lambda self: wrong))
    found = slacks(one, 60, EPSILON, np.random.default_rng(0))
    assert not violated(getattr(held, statement))
    assert violated(getattr(found, statement))


def test_a_wrong_identity_is_found_out(monkeypatch):
    monkeypatch.setattr(statements, "identity", lambda point: identity(point) * (1 + 1e-6))
    assert violated(slacks(drawn("definite"), 5, EPSILON, np.random.default_rng(0)).identity)


@pytest.mark.parametrize("index", range(8))
def test_with_a_gap_the_sign_of_one_entry_decides_stability_whatever_else_the_kernel_is(index):
    one = drawn("indefinite", index=index)
    z = np.zeros((4, 5))
    z[:, AXIS] = [1, -1, -1, 1]
    transfers = transfer(torch.from_numpy(z)[None], one.layers()[0])[0].numpy()
    found = eigenvalues(one.kernels[0], transfers)
    assert ((found < 0) == (one.kernels[0][AXIS, AXIS] > 0)).all()
