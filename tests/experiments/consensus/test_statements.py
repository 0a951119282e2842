"""What is proved of the analysed system holds at random points; a wrong constant is found out."""

import itertools

import numpy as np
import pytest
import torch

from fedscan.experiments.consensus.instances import AXIS, KERNELS, Instance, instance, step_parts
from fedscan.experiments.consensus.statements import Slacks, at, gap_slacks, identity, slacks
from fedscan.experiments.consensus.theory_rows import eigenvalues, violated
from fedscan.models.analysed_ssm import field, transfer

SIZES = list(itertools.product((3, 6), (1, 2, 4)))


@pytest.mark.parametrize(("n", "tokens"), SIZES)
@pytest.mark.parametrize("kind", KERNELS)
def test_every_statement_holds(kind, n, tokens):
    for index in range(3):
        one = instance(5, kind, 0.7, index, n, n + 1, tokens)
        found = slacks(one, 12, 0.05, np.random.default_rng(index))
        assert not any(violated(slack) for slack in found), found
        assert found.gap is not None
        assert (found.sector is None) == (kind in ("alternating", "indefinite"))


def test_the_instances_satisfy_their_assumptions():
    for kind in KERNELS:
        one = instance(0, kind, 0.5, 0, 5, 6, 4)
        assert one.constants.gamma > 0
        for (S_B, S_C), kernel in zip(one.maps, one.kernels, strict=True):
            np.testing.assert_allclose(S_C.T @ S_B, kernel, atol=1e-12)
    first = instance(0, "definite", 0.5, 0, 5, 6, 4)
    wider = instance(0, "definite", 1.0, 0, 5, 6, 4)
    np.testing.assert_array_equal(first.W_delta, wider.W_delta)
    np.testing.assert_allclose(
        2 * (first.kernels[0] - np.eye(5)), wider.kernels[0] - np.eye(5), atol=1e-14
    )


def test_too_few_states_have_no_kernel_of_full_rank():
    one = instance(0, "definite", 0.5, 0, 5, 3, 4)
    assert np.linalg.matrix_rank(one.kernels[0]) == 3


def points(one, count, seed=0):
    stream = np.random.default_rng(seed)
    for _ in range(count):
        z = stream.standard_normal((one.tokens, len(one.alpha)))
        yield z / np.linalg.norm(z, axis=1, keepdims=True)


def test_the_speed_is_written_out_exactly():
    # (24)-(28), for any kernel: also one that no theorem is about.
    one = instance(3, "indefinite", 0.0, 0, 6, 7, 4)
    for z in points(one, 40):
        point = at(z, one.layers()[0], one.kernels[0])
        np.testing.assert_allclose(identity(point), point.speed, atol=1e-13)
        # And it is the derivative of |z^a| along the flow.
        step = 1e-6
        tokens = torch.from_numpy(z)[None]
        speed = field(tokens, one.layers()[0], False)
        ends = [(tokens + sign * step * speed)[0, :, AXIS].abs().numpy() for sign in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), point.speed, atol=1e-8)


def test_a_wrong_constant_is_found_out():
    one = instance(0, "definite", 0.5, 0, 5, 6, 4)
    right = one.constants
    layer, kernel = one.layers()[0], one.kernels[0]
    for wrong in (
        right._replace(gamma=right.gamma * 1.5),
        right._replace(gamma_upper=right.gamma_upper * 0.7),
    ):
        found = [s for z in points(one, 30) for s in gap_slacks(at(z, layer, kernel), wrong)]
        assert violated(min(found))


@pytest.mark.parametrize(
    ("field_name", "changes"),
    [
        ("first", {"gamma": 4.0}),
        ("later", {"gamma": 40.0}),
        ("invariance", {"gamma": 4.0}),
        ("sector", {"gamma": 4.0}),
    ],
)
def test_each_flag_can_fire(monkeypatch, field_name, changes):
    class Wrong(Instance):
        @property
        def constants(self):
            found = Instance.constants.fget(self)
            return found._replace(**{k: v * getattr(found, k) for k, v in changes.items()})

    one = Wrong(*instance(0, "isotropic", 0.0, 0, 5, 6, 3))
    found = slacks(one, 60, 0.05, np.random.default_rng(0))
    assert violated(getattr(found, field_name))


def test_not_a_number_is_a_violation():
    assert violated(float("nan"))
    assert not violated(None)
    assert not violated(-1e-12)
    assert violated(-1e-6)
    assert len(Slacks._fields) == 6


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (-1, -1, 1)])
def test_the_spectrum_at_consensus(axis, signs):
    """Whatever the kernel, any axis and signs: against central differences."""
    stream = np.random.default_rng(axis)
    alpha, W, b = step_parts(4, stream)
    maps = stream.standard_normal((2, 5, 4))
    one = Instance(alpha, W, b, ((maps[0], maps[1]),), (maps[1].T @ maps[0],), 3)
    layer = one.layers()[0]
    z = np.zeros((3, 4))
    z[:, axis] = signs
    tokens = torch.from_numpy(z)[None]
    others = [nu for nu in range(4) if nu != axis]
    directions = [(i, nu) for i in range(3) for nu in others]
    step, jacobian = 1e-6, np.zeros((9, 9))
    for column, (i, nu) in enumerate(directions):
        ends = []
        for sign in (1, -1):
            moved = tokens.clone()
            moved[0, i, nu] += sign * step
            moved = moved / moved.norm(dim=-1, keepdim=True)
            ends.append(field(moved, layer, False)[0].numpy())
        slope = (ends[0] - ends[1]) / (2 * step)
        jacobian[:, column] = [slope[j, mu] for j, mu in directions]
    found = np.sort_complex(np.linalg.eigvals(jacobian))
    wanted = eigenvalues(one.kernels[0], transfer(tokens, layer)[0].numpy(), axis).ravel()
    np.testing.assert_allclose(found, np.sort_complex(wanted.astype(complex)), atol=2e-6)


def test_without_a_gap_the_first_token_is_free_to_turn():
    """Step sizes and decays per head of several channels: the first token has zero eigenvalues."""
    alpha, b = np.array([0.1, 0.1, 0.5, 0.5]), np.array([0.3, 0.3, -0.2, -0.2])
    kernel = np.random.default_rng(0).standard_normal((4, 4))
    nothing = np.zeros((4, 4))
    one = Instance(alpha, nothing, b, ((np.eye(4), kernel.T),), (kernel,), 2)
    z = np.zeros((2, 4))
    z[:, 0] = 1
    transfers = transfer(torch.from_numpy(z)[None], one.layers()[0])[0].numpy()
    found = eigenvalues(kernel, transfers, 0)
    assert found[0, 0] == pytest.approx(0, abs=1e-14)
    assert abs(found[1, 0]) > 0.01
