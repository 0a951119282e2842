"""Teachers as the paper draws them, criteria at their thresholds, the order of the search."""

import numpy as np
import pytest
import torch

from fedscan.experiments.teachers import search as search_module
from fedscan.experiments.teachers.acceptance import (
    CRITERIA,
    Diagnostics,
    diagnose,
    mutual_information,
    refusals,
)
from fedscan.experiments.teachers.candidates import GAINS_AND_TEMPERATURES, candidates, draw, write
from fedscan.experiments.teachers.search import Sizes, search
from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.models.selective_ssm.stability import certify

SHAPE = Shape(4, 8)


def test_draws_are_in_the_papers_order():
    teacher = draw(SHAPE, 0.9, 1, 0.5, 0.7)
    generator = torch.Generator().manual_seed(1)
    b, c, delta = (torch.randn(*size, generator=generator) for size in ((8, 4), (8, 4), (4, 4)))
    z = torch.randn(8, generator=generator).double().numpy()
    layer = blocks(teacher.params, SHAPE)
    assert np.allclose(layer.W_B, 0.375 * b.numpy(), rtol=1e-6)
    assert np.allclose(layer.W_C, 0.75 * c.numpy(), rtol=1e-6)
    assert np.allclose(layer.W_delta, 0.75 * delta.numpy(), rtol=1e-6)
    smallest = np.log1p(np.exp(layer.W_delta.astype(float).min()))
    assert teacher.margins.delta == np.floor(smallest * 1e5) / 1e5
    assert teacher.margins.gamma == pytest.approx(-np.log(0.9) / teacher.margins.delta)
    assert np.allclose(layer.A, -teacher.margins.gamma * (1 + 0.25 * np.abs(z)), rtol=1e-6)
    assert teacher.margins.rho == pytest.approx(0.9)


@pytest.mark.parametrize("rho", [0.3, 0.9, 0.999])
def test_realised_stability_tracks_rho(rho):
    for seed in range(3):
        for shape in (Shape(4, 4), Shape(16, 16)):
            teacher = draw(shape, rho, seed, 1, 1)
            found = certify(blocks(teacher.params, shape), teacher.margins)
            assert found.stable
            # The paper reports at most 0.03 over its bank; its 0.0300 may be rounded.
            assert 0 <= rho - found.rho_hat < 0.0302


def test_the_gain_scales_w_b_alone():
    full, half = draw(SHAPE, 0.9, 0, 1, 1), draw(SHAPE, 0.9, 0, 0.5, 1)
    assert np.array_equal(blocks(half.params, SHAPE).W_B * 2, blocks(full.params, SHAPE).W_B)
    for name in ("W_delta", "W_C", "A"):
        assert np.array_equal(getattr(blocks(half.params, SHAPE), name),
                              getattr(blocks(full.params, SHAPE), name))  # fmt: skip


def test_search_order():
    found = [(t.seed, t.gain, t.temperature) for t in candidates(SHAPE, 0.9)]
    assert len(found) == 39
    assert len(GAINS_AND_TEMPERATURES) == 13
    assert found[:3] == [(0, 1, 0.7), (0, 1, 1), (0, 0.5, 0.7)]
    assert found[12:14] == [(0, 0.03, 1), (1, 1, 0.7)]


def test_sampling_is_fixed_and_discards_the_burn_in():
    teacher = draw(SHAPE, 0.9, 0, 1, 1)
    tokens = write(teacher, "train", 50, 6, 20)
    assert tokens.shape == (50, 20)
    assert tokens.dtype == np.uint8
    assert np.array_equal(tokens[:, 6:], write(teacher, "train", 50, 12, 14))
    assert not np.array_equal(tokens, write(teacher, "test", 50, 6, 20))


PASSING = {
    "largest_marginal": 0.35,
    "marginal_entropy": 0.9 * np.log(4),
    "majority_share_95": 0.45,
    "covered_tokens": 4,
    "constant_share": 0.01,
    "distinct_share": 0.95,
    "nll": np.log(4) - 0.02,
    "mutual_information": 0.005,
    "finite": True,
    "rho_hat": 0.9,
    "stable": True,
}
FAILING = {
    "token_balance": {"largest_marginal": 0.3501},
    "marginal_entropy": {"marginal_entropy": 0.899 * np.log(4)},
    "sequence_majority": {"majority_share_95": 0.4501},
    "class_coverage": {"covered_tokens": 3},
    "constant_sequences": {"constant_share": 0.0101},
    "diversity": {"distinct_share": 0.9499},
    "informativeness": {"nll": np.log(4) - 0.0199},
    "no_collapse": {"nll": np.log(1.199)},
    "mutual_information": {"mutual_information": 0.0049},
    "finiteness": {"finite": False},
    "stability": {"stable": False},
}


def test_thresholds_are_met_with_equality():
    assert refusals(Diagnostics(**PASSING), 4) == []


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_refuses(criterion):
    assert refusals(Diagnostics(**PASSING | FAILING[criterion]), 4) == [criterion]


def test_nan_meets_no_criterion():
    found = Diagnostics(**PASSING | {"nll": float("nan"), "finite": False})
    assert set(refusals(found, 4)) == {"informativeness", "no_collapse", "finiteness"}


def test_diagnostics_of_made_up_tokens():
    teacher = draw(SHAPE, 0.9, 0, 1, 1)
    train = np.array([[0, 0, 0, 0], [0, 1, 2, 1], [0, 1, 2, 1], [2, 1, 0, 1]], np.uint8)
    test = np.array([[0, 1, 2, 3], [0, 0, 0, 1]], np.uint8)
    found = diagnose(teacher, train, test)
    counts = np.bincount(np.concatenate([train, test]).ravel())
    assert found.largest_marginal == counts.max() / 24
    assert found.covered_tokens == 3
    assert found.constant_share == 1 / 6
    assert found.distinct_share == 5 / 6
    assert found.majority_share_95 == pytest.approx(np.percentile([0.25, 0.75], 95))
    shares = counts / 24
    assert found.marginal_entropy == pytest.approx(-np.sum(shares * np.log(shares)))


def test_mutual_information_of_known_chains():
    copies = np.repeat(np.arange(4, dtype=np.uint8)[:, None], 5, axis=1)
    assert mutual_information(copies, 4) == pytest.approx(np.log(4))
    random = np.random.default_rng(0).integers(0, 4, (4000, 30)).astype(np.uint8)
    assert mutual_information(random, 4) < 1e-3


def test_a_teacher_is_screened_before_the_full_draw():
    attempts = list(search(SHAPE, 0.95, Sizes(512, 256, 16, 64)))
    assert attempts[-1].sample == "full"
    assert attempts[-1].refused == []
    assert attempts[-1].train.shape == (512, 64)
    for attempt in attempts[:-1]:
        assert attempt.refused or attempt.sample == "screen"
    positions = [(a.teacher.seed, a.teacher.gain, a.teacher.temperature) for a in attempts]
    order = [(t.seed, t.gain, t.temperature) for t in candidates(SHAPE, 0.95)]
    assert list(dict.fromkeys(positions)) == order[: len(set(positions))]


def test_the_search_ends_when_nothing_is_accepted(monkeypatch):
    monkeypatch.setattr(search_module, "refusals", lambda found, d: ["diversity"])
    attempts = list(search(SHAPE, 0.9, Sizes(16, 16, 2, 8)))
    assert len(attempts) == 39
    assert {attempt.sample for attempt in attempts} == {"screen"}
