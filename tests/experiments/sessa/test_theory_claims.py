"""Every claim is violated when its statement, or what is measured of it, is broken on purpose."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedscan.experiments.sessa import (
    claims_depth,
    claims_fixed,
    claims_jacobian,
    claims_positions,
    claims_retrieval,
)
from fedscan.experiments.sessa.theory_checks import GROUPS
from fedscan.seeds import generator
from fedscan.theory import feedback

RUNS = {
    claims_fixed: lambda: claims_fixed.claims(0, (0.5,), (0.3,)),
    claims_jacobian: lambda: claims_jacobian.claims(0, (0.3,)),
    claims_depth: lambda: claims_depth.claims(0),
    claims_positions: lambda: claims_positions.claims(0, (0.3,)),
    claims_retrieval: lambda: claims_retrieval.claims(0, [[0.5, 1]]),
}


def softmax_and_lemma():
    yield from claims_jacobian.softmax_slope(generator(0, "test"), 0)
    yield claims_jacobian.lemma(0.05)


def kernels():
    yield from claims_depth.harmonic()
    yield from claims_depth.attention_stack(2)
    yield claims_depth.recurrence_stack(2)
    yield claims_depth.loop_stack(0.5, 2)
    for beta, layers in claims_depth.ENVELOPES:
        yield claims_depth.loop_envelope_vanishes(beta, layers)
    yield claims_depth.exponential(4, 12)
    yield claims_depth.power(0.5, 2)
    yield claims_depth.zoh(generator(0, "test"), 0)


def calculus():
    yield claims_depth.calculus("mixed", claims_depth.KINDS["mixed"], 0)


# Parts of the slow ones.
PARTS = {
    claims_jacobian: (softmax_and_lemma, lambda: claims_jacobian._layer(0, 0.05, 0.3)),
    claims_depth: (kernels, calculus),
}
# Of it nothing is claimed, so that nothing can be violated.
RECORDED = {"mamba2_decay"}


def scaled(factor):
    return lambda real: lambda *given: factor * real(*given)


def with_diagonal(real):
    return lambda logits, gains: real(logits, gains) + 0.5 * np.eye(len(logits))


def of_larger_spread(real):
    return lambda logits, gains: real(3 * logits, gains)


def of_another_gain(real):
    return lambda gain, *rest: real(0.9 * gain, *rest)


def plus(constant):
    return lambda real: lambda *given: real(*given) + constant


def falling(real):
    return lambda B: np.diag(1.0 / np.arange(1, len(B) + 1))


def leaking(real):
    return lambda B: real(B) + 1e-9 * np.tril(np.ones_like(B), -1)


def rising_with_source(real):
    return lambda gain, source: real(gain, source) * (1 + np.asarray(source, float)) ** 0.1


def evenly_spread(real):
    def routing(layer, x):
        found = real(layer, x)
        even = torch.ones_like(found.forward).tril()
        return found._replace(forward=even / even.sum(-1, keepdim=True))

    return routing


def flatter(real):
    def routing(layer, x):
        found = real(layer, x)
        return found._replace(forward=found.forward**0.5)

    return routing


def per_row(power):
    def change(real):
        def kernel(beta, length):
            return real(beta, length) * (np.arange(length)[:, None] + 1.0) ** power

        return kernel

    return change


def shrunk_bound(real):
    def bound(*given):
        found = real(*given)
        return None if found is None else 1e-3 * found

    return bound


def instead(value):
    return lambda real: value


def damped_gelu(real):
    return SimpleNamespace(gelu=lambda x: 0.9 * F.gelu(x), layer_norm=F.layer_norm)


def leak_of_horizon(real):
    return lambda beta, k, source, horizon, leak: real(beta, k, source, horizon, leak * horizon)


def times_horizon(real):
    return lambda beta, k, source, horizon, leak: horizon * real(beta, k, source, horizon, leak)


# Module, what is replaced there (feedback's name: in the library), by what; claims that notice.
BROKEN = [
    (claims_fixed, "feedback.routing", with_diagonal,
     {"nilpotency", "neumann_series", "paths", "row_sums"}),
    (claims_fixed, "feedback.routing", of_larger_spread, {"softmax_upper", "softmax_lower"}),
    (claims_fixed, "feedback.solution_bound", instead(lambda rho: 0.5),
     {"solution", "kernel_norm"}),
    (claims_fixed, "feedback.kernel", scaled(1.01), {"kernel_norm_attained"}),
    (claims_fixed, "feedback.kernel", leaking, {"decay_without_gain"}),
    (claims_fixed, "feedback.kernel", falling, {"uniform_response_rises"}),
    (claims_fixed, "feedback.decay_bound", shrunk_bound, {"decay", "decay_realised"}),
    (claims_fixed, "block_bound", scaled(1e-4), {"block"}),
    (claims_fixed, "feedback.uniform_kernel", scaled(1.01),
     {"uniform_kernel", "uniform_first_lag", "uniform_upper"}),
    (claims_fixed, "feedback.uniform_kernel", scaled(0.5), {"uniform_lower"}),
    (claims_fixed, "feedback.uniform_kernel", of_another_gain, {"uniform_exponent"}),
    (claims_fixed, "feedback.uniform_constant", rising_with_source, {"uniform_constant_falls"}),
    (claims_fixed, "feedback.uniform_exponent", scaled(1.01), {"uniform_local_exponent"}),
    (claims_fixed, "feedback.uniform_response", of_another_gain,
     {"uniform_response", "uniform_response_rate", "kernel_norm_uniform"}),
    (claims_fixed, "gammaln", scaled(0.99), {"gautschi_upper"}),
    (claims_fixed, "gammaln", scaled(1.01), {"gautschi_lower"}),
    (claims_fixed, "routing", evenly_spread,
     {"attention_values", "attention_upper", "attention_lower"}),
    (claims_fixed, "routing", flatter, {"attention_slope"}),
    (claims_fixed, "recurrence_bound", scaled(0.1), {"recurrence", "failed_freeze"}),
    (claims_fixed, "HOPS", instead(1), {"invariant_rate"}),
    (claims_fixed, "zoh_state_bound", scaled(0.3), {"zoh_state"}),
    (claims_jacobian, "softmax_slope_bound", scaled(0.1), {"softmax_slope"}),
    (claims_jacobian, "batched", scaled(1.01), {"softmax_slope_of_one"}),
    (claims_jacobian, "batched", scaled(0.1), {"attention_jacobian"}),
    (claims_jacobian, "_slopes", scaled(1 + 1e-6), {"jacobian_identity"}),
    (claims_jacobian, "_slopes", plus(1e-12), {"causality"}),
    (claims_jacobian, "convolution_constant", scaled(0.4), {"convolution"}),
    (claims_jacobian, "loop_jacobian_bound", shrunk_bound, {"loop_jacobian", "block_jacobian"}),
    (claims_depth, "stack_bound", instead(lambda norms: norms[0]), {"residual_calculus"}),
    (claims_depth, "harmonic_power_bound", scaled(0.9), {"harmonic_kernel"}),
    (claims_depth, "attention_stack_bound", scaled(0.7), {"attention_stack"}),
    (claims_depth, "attention_stack_envelope", instead(lambda lags, L: (1.0 + lags) ** -2),
     {"attention_stack_order"}),
    (claims_depth, "recurrence_stack_constant", scaled(0.3), {"recurrence_stack"}),
    (claims_depth, "loop_stack_bound", scaled(0.5), {"loop_stack"}),
    (claims_depth, "loop_stack_envelope", instead(lambda lags, L, beta: lags),
     {"loop_envelope_vanishes"}),
    (claims_depth, "math.comb", instead(lambda n, k: 1), {"exponential_paths"}),
    (claims_depth, "power_convolution_limit", scaled(1.2), {"power_convolution"}),
    (claims_depth, "zoh_jacobian_bound", scaled(0.01), {"zoh_jacobian"}),
    (claims_positions, "positional_writer",
     lambda real: lambda w, channel, gain, scale: real(w, channel, 0.9 * gain, scale),
     {"positional_writer", "position_is_read"}),
    (claims_positions, "identity_block", plus(1e-12), {"signal_passes"}),
    (claims_positions, "gelu", scaled(3.0), {"rotary_selection", "mixture_error"}),
    (claims_positions, "F", damped_gelu, {"gelu_ramp", "gelu_pair", "gelu_small"}),
    (claims_positions, "scaffold_error_bound", scaled(0.1), {"scaffold_norm"}),
    (claims_positions, "copier", lambda real: lambda lag, delta: real(lag, 0.5), {"lag_copies"}),
    (claims_positions, "readout", lambda real: lambda taps, at: real(0.9 * taps, at), {"readout"}),
    (claims_positions, "readout", lambda real: lambda taps, at: real(taps, at + 500), {"readout"}),
    (claims_retrieval, "macro_kernel", scaled(1.01), {"macro_diagonal"}),
    (claims_retrieval, "macro_kernel", per_row(-0.7), {"macro_lower"}),
    (claims_retrieval, "macro_kernel", per_row(0.7), {"macro_upper"}),
    (claims_retrieval, "LEAK", instead(10.0), {"margins_positive", "weights_margins_positive"}),
    (claims_retrieval, "profile_exponent", plus(0.01), {"profile_exponent"}),
    (claims_retrieval, "profile_exponent", plus(0.8), {"profile_constant"}),
    (claims_retrieval, "selective_kernel", leak_of_horizon, {"competitors"}),
    (claims_retrieval, "selective_kernel", times_horizon, {"first_margin"}),
    (claims_retrieval, "retrieval_scores", scaled(1 + 1e-5), {"weights_are_kernels"}),
    (claims_retrieval, "jacobian_norms", scaled(1e-3), {"margin_below_norm"}),
    (claims_retrieval, "attention_stack_envelope", instead(lambda lags, L: lags),
     {"attention_envelope_falls"}),
    (claims_retrieval, "recurrence_stack_envelope", instead(lambda lags, L, rate: lags),
     {"recurrence_envelope_falls"}),
]  # fmt: skip


def violated(claims):
    return {claim.claim for claim in claims if claim.violated}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("module", RUNS, ids=lambda m: m.__name__.rsplit("_", 1)[1])
def test_none_is_violated_as_it_stands(module):
    found = list(RUNS[module]())
    assert violated(found) == set()
    names = {claim.claim for claim in found}
    assert any(names == group for group in GROUPS.values())


def test_each_claim_has_its_break():
    caught = set().union(*(names for *_, names in BROKEN))
    assert caught | RECORDED == set().union(*GROUPS.values())


@pytest.mark.parametrize(
    ("module", "name", "change", "caught"), BROKEN, ids=[f"{b[1]}-{min(b[3])}" for b in BROKEN]
)
def test_a_broken_statement_is_violated(monkeypatch, module, name, change, caught):
    holder, _, last = name.rpartition(".")
    owner = {"": module, "feedback": feedback}.get(holder) or getattr(module, holder)
    monkeypatch.setattr(owner, last, change(getattr(owner, last)))
    missed = set(caught)
    with np.errstate(all="ignore"):
        for part in PARTS.get(module, (RUNS[module],)):
            for claim in part():
                missed -= {claim.claim} if claim.violated else set()
                if not missed:
                    return  # what takes longer comes later
    assert missed == set()


def test_what_is_only_recorded_has_a_number_and_no_claim():
    row = claims_depth.mamba2_decay(0)
    assert row.claim in RECORDED
    assert not row.applicable
    assert not row.violated
    # It forgets: the fitted decay per token is positive.
    assert row.measured > 0
