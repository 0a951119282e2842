"""Every closed form against an independent 40-digit re-derivation, and against identities."""

import numpy as np
import pytest

from fedscan.theory.common_stack import common_stack_bound
from fedscan.theory.constants import CROSS_ENTROPY, Constants, Norms, configured, realised
from fedscan.theory.displacement import (
    diloco_step,
    fedadam_step,
    feddyn_reach,
    feddyn_step,
    fedexp_step,
    local_reach,
    scaffold_reach,
)
from fedscan.theory.fedavg import fedavg_bound
from fedscan.theory.fedprox import fedprox_bound, proximal_radius
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.heterogeneity import disagreement_bound, variance_bound, weighted_tv
from fedscan.theory.overflow import infinite
from fedscan.theory.smoothness import smoothness_bound
from fedscan.theory.stack_gradient import stack_gradient_bound
from fedscan.theory.stack_inputs import stack_constants
from fedscan.theory.stack_smoothness import stack_smoothness_bound
from fedscan.theory.variation import bound_variation
from tests.oracles import bounds as oracle
from tests.theory.conftest import norms_of, random_layer

LIPSCHITZ, SMOOTHNESS = CROSS_ENTROPY
SHAPES = [(2, 3), (4, 4), (5, 2), (8, 16)]


def close(found, wanted, tolerance=1e-11):
    assert float(found) == pytest.approx(float(wanted), rel=tolerance)


def single(rng, shape, rho=0.9, radius=0.0, bound=1.0):
    layer = random_layer(rng, *shape)
    norms = norms_of(layer)
    point = configured(norms, -np.log(rho), *shape, bound, radius)
    return layer, norms, {k.strip(): float(v) for k, v in norms._asdict().items()}, point


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", [0.3, 0.9, 0.999])
def test_gradient_bound(rng, shape, rho):
    layer, norms, as_dict, point = single(rng, shape, rho, bound=1.7)
    found = gradient_bound(point)
    wanted = oracle.gradient_bound(as_dict, *shape, rho, 1.7, LIPSCHITZ)
    spectral = oracle.spectral_norms(layer)
    for name, value in norms._asdict().items():
        close(value, spectral[name])
    close(point.step, wanted["k_delta"])
    for name in ("k_b", "k_w", "state", "jacobian", "bound", "recurrent"):
        close(getattr(found, name), wanted[name])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [2, 12, 64])
def test_tight_gradient_bound(rng, shape, length):
    layer = random_layer(rng, *shape)
    found = gradient_bound(realised(**layer, length=length)).bound
    close(found, oracle.tight_gradient_bound(layer, length, LIPSCHITZ))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.0, 0.001, 3.0])
def test_smoothness_and_variation(rng, shape, radius):
    _, _, norms, point = single(rng, shape, 0.95, radius, 1.3)
    found = smoothness_bound(point)
    wanted = oracle.smoothness_bound(norms, radius, *shape, 0.95, 1.3, LIPSCHITZ, SMOOTHNESS)
    for name in ("k_a1", "k_a2", "k_b2", "k_h2", "bound"):
        close(getattr(found, name), wanted[name])
    close(
        bound_variation(point), oracle.bound_variation(norms, radius, *shape, 0.95, 1.3, LIPSCHITZ)
    )


ROUNDS = {
    "initial_gap": 1.3,
    "rounds": 60,
    "batch": 64,
    "weights": [0.5, 0.3, 0.2],
    "smoothness": 40.0,
    "gradient": 6.0,
    "heterogeneity": 0.4,
}


@pytest.mark.parametrize("local_steps", [1, 4, 64])
@pytest.mark.parametrize("mu", [None, 0.1, 1.0])
def test_convergence_bounds(local_steps, mu):
    ours = {"local_steps": local_steps, "learning_rate": 1e-3}
    ours |= {{"batch": "batch_size"}.get(k, k): v for k, v in ROUNDS.items()}
    theirs = ROUNDS | {"local_steps": local_steps, "step": 1e-3}
    found = fedavg_bound(**ours) if mu is None else fedprox_bound(**ours, mu=mu)
    wanted = oracle.fedavg_bound(**theirs) if mu is None else oracle.fedprox_bound(**theirs, mu=mu)
    terms = (found.optimisation, found.variance, found.local_variance, found.heterogeneity)
    for value, term in zip(terms, wanted["terms"], strict=True):
        close(value, term)
    close(found.bound, wanted["bound"])
    conditions = (bool(found.step_condition <= 0.5), bool(found.drift_condition <= 1))
    assert conditions == tuple(wanted["conditions"])
    assert bool(found.applies) == all(conditions)


def test_step_conditions_are_the_theorems():
    shared = {k: v for k, v in ROUNDS.items() if k not in ("batch", "smoothness")}
    shared |= {"batch_size": 64, "learning_rate": 0.5}
    assert fedavg_bound(**shared, local_steps=1, smoothness=1.0).applies
    assert not fedavg_bound(**shared, local_steps=1, smoothness=1.01).applies
    # 12 eta^2 L^2 E (E - 1) = 1 is reached before eta E L = 1/2 when E is 2.
    edge = 1 / np.sqrt(12 * 0.25 * 2)
    assert fedavg_bound(**shared, local_steps=2, smoothness=edge * 0.999).applies
    assert not fedavg_bound(**shared, local_steps=2, smoothness=edge * 1.001).applies


def test_one_local_step_has_no_drift_even_where_the_bound_overflows():
    values = ROUNDS | {"smoothness": np.inf, "gradient": np.inf, "batch_size": 64}
    values = {k: v for k, v in values.items() if k != "batch"}
    found = fedavg_bound(**values, local_steps=1, learning_rate=0.05)
    assert found.local_variance == found.heterogeneity == found.drift_condition == 0
    assert found.variance == np.inf


@pytest.mark.parametrize("mu", [0.0, 1e-9, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("steps", [0, 1, 16])
def test_proximal_radius(mu, steps):
    close(
        proximal_radius(1e9, 5.0, mu, 0.05, steps),
        oracle.fedprox_radius(1e9, 5.0, mu, 0.05, steps),
    )


def test_proximal_radius_limits():
    assert proximal_radius(2.0, 1e6, 0.1, 0.05, 16) == 2.0
    close(proximal_radius(1e9, 5.0, 1e-12, 0.05, 16), 5.0 * 0.05 * 16, 1e-9)
    with pytest.raises(ValueError, match="eta mu"):
        proximal_radius(1.0, 1.0, 30.0, 0.05, 4)


def test_displacements():
    close(local_reach(3.0, 0.05, 16), oracle.fedsam(0.05, 16, 3.0))
    close(fedexp_step(1.5, local_reach(3.0, 0.05, 16)), oracle.fedexp(1.5, 0.05, 16, 3.0))
    close(diloco_step(0.7, 0.9, local_reach(3.0, 0.05, 16)), oracle.diloco(0.7, 0.9, 0.05, 16, 3.0))
    close(fedadam_step(0.01, 1e-3, 0.2), oracle.fedadam(0.01, 1e-3, 0.2))
    close(
        feddyn_reach(9.0, 3.0, 0.5, 0.1, 0.05, 16),
        oracle.feddyn_radius(9.0, 3.0, 0.5, 0.1, 0.05, 16),
    )
    close(scaffold_reach(3.0, 0.01, 0.2, 0.05, 16), oracle.scaffold(0.05, 16, 3.0, 0.01, 0.2))
    assert feddyn_step(1.0, 0.2, 0.1) == pytest.approx(3.0)


def test_heterogeneity():
    assert variance_bound(4.0, 64) == 0.25
    assert weighted_tv([0.5, 0.5], [1.0, 0.5]) == 0.625
    assert disagreement_bound(3.0, 0.625) == 22.5


def stack(rng, shape, depth, scale=0.15, radius=None):
    layers = [random_layer(rng, *shape, scale, gamma=1.5) for _ in range(depth)]
    norms = [norms_of(layer) for layer in layers]
    rows = [np.linalg.norm(layer["W_delta"], axis=1).max() for layer in layers]
    gammas = [np.min(-layer["A"]) for layer in layers]
    first = gammas[0] * np.logaddexp(0, layers[0]["W_delta"].min())
    radii = None if radius is None else [radius] * depth
    return norms, stack_constants(norms, rows, gammas, first, *shape, radii)


def as_oracle(norms, constants, radius=0.0):
    return [
        {
            "norms": {k: float(v) for k, v in norm._asdict().items()},
            "rho": float(layer.rho),
            "input_bound": float(layer.input_bound),
            "radius": radius,
        }
        for norm, layer in zip(norms, constants, strict=True)
    ]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("radius", [0.0, 0.01])
def test_stacks(rng, depth, radius):
    shape = (3, 2)
    norms, constants = stack(rng, shape, depth, radius=radius)
    # rho as float64 on both sides: 1 - rho loses digits where rho is close to 1.
    layers = [c._replace(history=1 / (1 - c.rho)) for c in constants]
    theirs = as_oracle(norms, layers, radius)
    found = stack_smoothness_bound(layers)
    wanted = oracle.stacked_smoothness_bound(theirs, *shape, LIPSCHITZ, SMOOTHNESS)
    for ours, other in zip(
        (*found.theta, *found.omega), (*wanted["theta"], *wanted["omega"]), strict=True
    ):
        close(ours, other, 1e-9)
    close(found.bound, wanted["smoothness"], 1e-9)
    close(found.gradient, wanted["gradient"], 1e-9)
    if not radius:
        gradient = stack_gradient_bound(layers)
        other = oracle.stacked_gradient_bound(theirs, *shape, LIPSCHITZ)
        close(gradient.bound, other["bound"], 1e-9)
        for ours, kappa in zip(gradient.kappa, other["kappa"], strict=True):
            close(ours, kappa, 1e-9)
        close(gradient.bound, found.gradient, 1e-9)
        certified = oracle.certified_input_bounds(
            [layer["norms"] for layer in theirs], [float(c.rho) for c in layers], *shape, 1.0
        )
        for layer, bound in zip(layers, certified, strict=True):
            close(layer.input_bound, bound, 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.0, 0.5])
def test_one_layer_is_the_single_layer_theory(rng, shape, radius):
    point = single(rng, shape, 0.9, radius, 1.4)[3]
    close(stack_gradient_bound([point]).bound, gradient_bound(point).bound, 1e-14)
    close(stack_smoothness_bound([point]).bound, smoothness_bound(point).bound, 1e-13)
    close(stack_smoothness_bound([point]).gradient, gradient_bound(point).bound, 1e-14)
    close(common_stack_bound(point, 1).gradient, gradient_bound(point).bound, 1e-14)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_common_stacks(rng, depth):
    shape = (4, 3)
    _, _, norms, point = single(rng, shape, 0.7, bound=1.2)
    found = common_stack_bound(point, depth)
    fixed = (norms, depth, *shape, 0.7, 1.2, LIPSCHITZ)
    close(found.gradient, oracle.common_gradient_bound(*fixed))
    close(found.smoothness, oracle.common_smoothness_bound(*fixed, SMOOTHNESS))
    equal = stack_smoothness_bound([point] * depth)
    close(found.gradient, equal.gradient)
    assert found.smoothness > equal.bound


def test_bounds_grow_with_every_envelope(rng):
    point = single(rng, (4, 4))[3]
    for name in ("delta", "step", "B", "C", "A", "rho", "history", "input_bound"):
        larger = point._replace(**{name: getattr(point, name) * 1.01})
        for bound in (
            lambda c: gradient_bound(c).bound,
            lambda c: smoothness_bound(c).bound,
            bound_variation,
            lambda c: stack_smoothness_bound([c, c]).bound,
            lambda c: common_stack_bound(c, 2).smoothness,
        ):
            assert bound(larger) >= bound(point), name


def test_growth_exponents_in_memory(rng):
    """G ~ (1-rho)^-2 and L ~ (1-rho)^-4 with fixed norms as rho tends to 1."""
    norms = norms_of(random_layer(rng, 8, 8))
    gaps = np.array([1e-4, 1e-5])
    point = configured(norms, -np.log1p(-gaps), 8, 8)
    for bound, exponent in ((gradient_bound(point).bound, -2), (smoothness_bound(point).bound, -4)):
        slope = np.diff(np.log(bound)) / np.diff(np.log(gaps))
        assert slope == pytest.approx(exponent, abs=0.01)


def test_tight_constants_never_exceed_configured_ones(rng):
    for _ in range(200):
        layer = random_layer(rng, 4, 3, scale=rng.uniform(0.05, 1.5), gamma=rng.uniform(1e-4, 2))
        decay = np.min(-layer["A"]) * np.logaddexp(0, layer["W_delta"].min())
        point = configured(norms_of(layer), decay, 4, 3)
        tight = realised(**layer, length=64)
        assert gradient_bound(tight).bound <= gradient_bound(point).bound
        assert smoothness_bound(tight).bound <= smoothness_bound(point).bound


def test_vectorised_over_points(rng):
    layers = [random_layer(rng, 4, 3) for _ in range(5)]
    stacked = {k: np.stack([layer[k] for layer in layers]) for k in layers[0]}
    decay = np.linspace(0.1, 1, 5)
    together = smoothness_bound(configured(norms_of(stacked), decay, 4, 3)).bound
    tight = gradient_bound(realised(**stacked, length=64)).bound
    for i, layer in enumerate(layers):
        close(together[i], smoothness_bound(configured(norms_of(layer), decay[i], 4, 3)).bound)
        close(tight[i], gradient_bound(realised(**layer, length=64)).bound)


def test_overflow_is_infinity_with_a_name(rng):
    norms = norms_of(random_layer(rng, 4, 4))
    forgetful = configured(norms, 0.0, 4, 4)  # rho = 1
    assert infinite(gradient_bound(forgetful))[0] == "state"
    huge = configured(Norms(*(norm * 1e200 for norm in norms)), 0.1, 4, 4)
    # M_C = 0 times an infinite Jacobian is no number in floating point, and no bound either.
    silent = huge._replace(C=np.asarray(0.0))
    for point in (forgetful, huge, silent):
        for value in (smoothness_bound(point), stack_smoothness_bound([point, point])):
            assert not any(np.isnan(np.asarray(field)).any() for field in value)
            assert np.isinf(value.bound)
    assert infinite(smoothness_bound(huge))[-1] == "bound"
    deep = stack_gradient_bound([configured(norms, 1e-9, 4, 4)] * 40)
    assert np.isinf(deep.bound)
    assert infinite(deep)


def test_nan_and_negative_inputs_are_refused(rng):
    point = single(rng, (4, 4))[3]
    with pytest.raises(ValueError, match=r"gradient_bound: .*B is NaN"):
        gradient_bound(point._replace(B=np.asarray(np.nan)))
    norms = Norms(*(np.asarray(1.0),) * 4)
    with pytest.raises(ValueError, match="decay must not be negative"):
        configured(norms, -0.1, 4, 4)
    layer = random_layer(rng, 3, 3)
    with pytest.raises(ValueError, match="A must be negative"):
        realised(**{**layer, "A": -layer["A"]}, length=8)


def test_no_memory_limit_is_reached_at_rho_zero(rng):
    point = single(rng, (3, 3), rho=1e-300)[3]
    assert isinstance(point, Constants)
    assert point.history == 1.0
    assert gradient_bound(point).recurrent == pytest.approx(0.0, abs=1e-290)
