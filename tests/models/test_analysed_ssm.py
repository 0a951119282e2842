"""The analysed layer: two forms against a third, symmetries, equilibria, causality."""

import numpy as np
import pytest
import torch

from fedscan.models.analysed_ssm import (
    AnalysedLayer,
    field,
    interaction,
    own_interaction,
    readout,
    readout_products,
    recurrence,
    step_sizes,
    transfer,
)

N, M, TOKENS = 5, 6, 4


def layer(seed=0, n=N, m=M, batch=()):
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*batch, *shape, generator=g, dtype=torch.float64)

    return AnalysedLayer(draw(n).abs(), draw(n, n), draw(n), draw(m, n), draw(m, n))


def tokens(seed=1, batch=3, count=TOKENS, n=N):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(batch, count, n, generator=g, dtype=torch.float64)
    return z / z.norm(dim=-1, keepdim=True)


def by_hand(z, weights, silu):
    """Equation (1), a channel at a time, in NumPy."""
    alpha, W, b, S_B, S_C = (t.numpy() for t in weights)
    f = (lambda x: x / (1 + np.exp(-x))) if silu else (lambda x: x)
    out = np.zeros_like(z)
    for mu in range(z.shape[1]):
        h = np.zeros(S_B.shape[0])
        for i, token in enumerate(z):
            step = np.log1p(np.exp(W[mu] @ token + b[mu]))
            h = np.exp(-alpha[mu] * step) * h + step * f(S_B @ token) * token[mu]
            out[i, mu] = f(S_C @ token) @ h
    return out


@pytest.mark.parametrize("silu", [False, True])
def test_three_forms_are_the_definition(silu):
    z, weights = tokens(), layer()
    wanted = np.stack([by_hand(one, weights, silu) for one in z.numpy()])
    for form in (readout, recurrence, readout_products):
        np.testing.assert_allclose(form(z, weights, silu), wanted, rtol=1e-12, atol=1e-12)


def test_a_layer_per_batch_element():
    layers, z = layer(batch=(3,)), tokens()
    together = field(z, layers, True)
    for index in range(3):
        own = AnalysedLayer(*(t[index] for t in layers))
        torch.testing.assert_close(together[index], field(z[index : index + 1], own, True)[0])


def test_strong_decay_does_not_overflow():
    weights = layer()._replace(alpha=torch.full((N,), 1e6, dtype=torch.float64))
    z = tokens(count=30)
    found = readout(z, weights, False)
    assert torch.isfinite(found).all()
    own = own_interaction(z, weights, False)[..., None] * step_sizes(z, weights) * z
    torch.testing.assert_close(found, own)  # nothing is left of earlier tokens
    assert torch.isfinite(transfer(z, weights)).all()


@pytest.mark.parametrize("silu", [False, True])
def test_the_flow_stays_on_the_sphere_and_is_causal(silu):
    z, weights = tokens(), layer()
    speed = field(z, weights, silu)
    assert (speed * z).sum(-1).abs().max() < 1e-13
    changed = z.clone()
    changed[:, 2] = tokens(seed=9)[:, 2]
    torch.testing.assert_close(field(changed, weights, silu)[:, :2], speed[:, :2])


def test_a_step_of_depth_is_the_flow_to_second_order():
    weights, start = layer(), tokens()

    def stepped(tau):
        moved = start + tau * readout(start, weights, True)
        return moved / moved.norm(dim=-1, keepdim=True)

    def flowed(tau, count=400):
        z = start
        for _ in range(count):
            middle = z + tau / count / 2 * field(z, weights, True)
            z = z + tau / count * field(middle, weights, True)
        return z

    errors = [float((stepped(tau) - flowed(tau)).norm()) for tau in (0.02, 0.01)]
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_a_rotation_of_states_is_seen_by_the_silu_alone():
    z, weights = tokens(), layer()
    rotation = torch.linalg.qr(
        torch.randn(M, M, generator=torch.Generator().manual_seed(2)).double()
    )[0]
    turned = weights._replace(S_B=rotation @ weights.S_B, S_C=rotation @ weights.S_C)
    torch.testing.assert_close(field(z, turned, False), field(z, weights, False))
    assert not torch.allclose(field(z, turned, True), field(z, weights, True))


def test_without_weights_of_step_sizes_a_tokens_sign_is_its_own():
    weights = layer()._replace(W_delta=torch.zeros(N, N, dtype=torch.float64))
    z = tokens()
    flipped = z.clone()
    flipped[:, 1] *= -1
    before, after = field(z, weights, False), field(flipped, weights, False)
    before[:, 1] *= -1
    torch.testing.assert_close(after, before)


@pytest.mark.parametrize("silu", [False, True])
def test_every_signed_axis_is_an_equilibrium(silu):
    weights = layer()
    for axis in range(N):
        for signs in ((1, 1, 1, 1), (1, -1, 1, -1), (-1, -1, 1, 1)):
            z = torch.zeros(1, TOKENS, N, dtype=torch.float64)
            z[0, :, axis] = torch.tensor(signs, dtype=torch.float64)
            assert field(z, weights, silu).abs().max() < 1e-13
            # Of the map over depth too, as long as a token is not thrown across.
            gain = 1 + 0.01 * (readout(z, weights, silu) * z).sum(-1)
            assert (gain > 0).all()
            moved = z + 0.01 * readout(z, weights, silu)
            torch.testing.assert_close(moved / moved.norm(dim=-1, keepdim=True), z)


def test_independent_maps_agree_on_average_with_silu_alone():
    # Lemma IV.1: Gauss-Hermite against samples; E silu(g) = 0.206620964.
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / np.sqrt(2 * np.pi)

    def mean_silu(std):
        x = std * nodes
        return float(weights @ (x / (1 + np.exp(-x))))

    assert mean_silu(1.0) == pytest.approx(0.206620964, abs=1e-9)
    g = torch.Generator().manual_seed(0)
    z = tokens(batch=1)[:, :2]
    count, s_B, s_C = 4000, 0.7, 1.3
    S_B = s_B * torch.randn(count, M, N, generator=g, dtype=torch.float64)
    S_C = s_C * torch.randn(count, M, N, generator=g, dtype=torch.float64)
    nothing = torch.zeros(count, N, dtype=torch.float64)
    many = AnalysedLayer(nothing, torch.zeros(count, N, N, dtype=torch.float64), nothing, S_B, S_C)
    for silu, wanted in ((False, 0.0), (True, M * mean_silu(s_B) * mean_silu(s_C))):
        q = interaction(z.expand(count, -1, -1), many, silu)[:, 1, 0]
        error = float(q.std()) / count**0.5
        assert abs(float(q.mean()) - wanted) < 4 * error
        assert (wanted > 0) == silu
