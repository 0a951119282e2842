"""The language-model problem: batches, gradients, evaluation, loss scaling."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedscan.data.sampling import batch_indices
from fedscan.federated import engine
from fedscan.federated.algorithm import LocalContext, Step
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.local_phase import Diverged, local_phase
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.params.algebra import clone, norm
from fedscan.problems.adamw import AdamW
from fedscan.problems.language_model import LanguageModelProblem, Schedule

SHAPE = Architecture(layout(1), 16, 8, 4, 2, 8, 1, 2, 61, 8, 16)
SCHEDULE = Schedule(3, 4, 0.01, (0.9, 0.999), 1e-8, 0.01, 1.0, 5)


def problem(precision="float32", seed=0, schedule=SCHEDULE, device="cpu"):
    rng = np.random.default_rng(0)
    train = [rng.integers(0, 61, (20, 24)).astype(np.uint16) for _ in range(2)]
    validation = rng.integers(0, 61, (13, 24)).astype(np.uint16)
    return LanguageModelProblem(
        initialise(SHAPE, 0), train, validation, schedule, seed, precision, device
    )


def test_gradient_is_autograds_and_the_model_is_untouched():
    p = problem()
    params = p.initial_params()
    before = clone(params)
    batch = next(p.batches(0, 1))
    loss, gradient = p.gradient(params, batch, 1.0)
    model = initialise(SHAPE, 0)
    logits = model(batch)[:, :-1].flatten(0, 1)
    expected = F.cross_entropy(logits, batch[:, 1:].flatten())
    expected.backward()
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad, rtol=1e-4, atol=1e-7)
    assert all(torch.equal(params[name], before[name]) for name in params)
    assert list(gradient) == list(params)


def test_evaluation_is_the_mean_over_all_sequences_whatever_the_batch_size():
    one = problem()
    all_at_once = problem(schedule=SCHEDULE._replace(eval_batch_size=100))
    params = one.initial_params()
    assert one.evaluate(params) == pytest.approx(all_at_once.evaluate(params), rel=1e-6)
    assert one.evaluate(params) == pytest.approx(math.log(64), abs=0.2)


def test_batches_depend_on_seed_client_and_round_alone():
    def ids(seed, client, round_index):
        return torch.stack(list(problem(seed=seed).batches(client, round_index)))

    assert torch.equal(ids(0, 1, 2), ids(0, 1, 2))
    assert not torch.equal(ids(0, 1, 2), ids(1, 1, 2))
    assert not torch.equal(ids(0, 1, 2), ids(0, 1, 3))
    assert ids(0, 1, 2).shape == (3, 4, 24)


def test_more_local_steps_begin_with_the_same_batches():
    short = batch_indices(0, 1, 2, 100, 8, 4)
    long = batch_indices(0, 1, 2, 100, 64, 4)
    assert np.array_equal(short, long[:8])


def test_sampling_is_with_replacement_and_uniform():
    drawn = batch_indices(0, 0, 1, 10, 1000, 8).ravel()
    counts = np.bincount(drawn, minlength=10)
    # 8,000 draws of 10: standard deviation 27
    assert np.abs(counts - 800).max() < 140


def test_the_optimiser_is_adamw_by_the_book():
    p = problem(schedule=SCHEDULE._replace(clip_norm=0.65))
    params = p.initial_params()
    context = LocalContext(params, {}, {}, 1, 3, 0.01)
    found = local_phase(p, ALGORITHMS["fedavg"](), context, 0)
    model = initialise(SHAPE, 0)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01
    )
    norms = []
    for batch in p.batches(0, 1):
        optimizer.zero_grad()
        model.loss(batch).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.65)))
        optimizer.step()
    np.testing.assert_allclose(found.norms, norms, rtol=1e-5)
    assert min(norms) < 0.65 < max(norms), "the clip must be at work in some steps"
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found.result.params[name], parameter.data, rtol=1e-4, atol=1e-5)


def test_directions_are_clipped_after_the_algorithms_terms():
    p, seen = problem(), []

    def shifted(grad_fn, params, batch, context):
        loss, gradient = grad_fn(params, batch)
        return Step(loss, {name: tensor + 100.0 for name, tensor in gradient.items()})

    class Spy(torch.optim.SGD):
        def step(self, closure=None):
            tensors = self.param_groups[0]["params"]
            seen.append(norm({str(i): tensor.grad for i, tensor in enumerate(tensors)}))
            super().step(closure)

    p.optimizer = lambda tensors: Spy(tensors, lr=1e-9)
    algorithm = ALGORITHMS["fedavg"]()._replace(local_gradient=shifted)
    found = local_phase(p, algorithm, LocalContext(p.initial_params(), {}, {}, 1, 3, 0.01), 0)
    assert min(found.norms) > 100
    np.testing.assert_allclose(seen, 1.0, rtol=1e-5)


def test_loss_scaling_gives_the_same_step_and_skips_overflows():
    p = problem()
    params, batch = p.initial_params(), next(p.batches(0, 1))
    _, plain = p.gradient(params, batch, 1.0)
    _, scaled = p.gradient(params, batch, 65536.0)
    for name in plain:
        torch.testing.assert_close(scaled[name], plain[name], rtol=1e-5, atol=1e-9)
    original, scales = p.gradient, []

    def overflowing(params, batch, scale):
        scales.append(scale)
        loss, gradient = original(params, batch, 1.0)
        if scale > 16384.0:
            gradient = {name: tensor * math.inf for name, tensor in gradient.items()}
        return loss, gradient

    p.gradient, p.loss_scale = overflowing, 65536.0
    context = LocalContext(params, {}, {}, 1, 3, 0.01)
    found = local_phase(p, ALGORITHMS["fedavg"](), context, 0)
    assert scales == [65536.0, 32768.0, 16384.0]
    assert found.skipped_steps == 2
    assert (len(found.losses), len(found.norms)) == (3, 1)


def test_a_phase_that_only_overflows_is_a_failure():
    p = problem()
    original = p.gradient

    def overflowing(params, batch, scale):
        loss, gradient = original(params, batch, 1.0)
        return loss, {name: tensor * math.inf for name, tensor in gradient.items()}

    p.gradient, p.loss_scale = overflowing, 65536.0
    algorithm = ALGORITHMS["fedavg"]()
    with pytest.raises(Diverged, match="every local step overflowed float16 at client 0, round 1"):
        next(engine.run(p, algorithm, 1, engine.initial_state(p, algorithm)))


def test_training_learns_in_bfloat16_too():
    losses = {}
    for precision in ("float32", "bfloat16"):
        p, algorithm = problem(precision), ALGORITHMS["fedavg"]()
        rounds = list(engine.run(p, algorithm, 4, engine.initial_state(p, algorithm)))
        losses[precision] = [float(o.losses.mean()) for r in rounds for o in r.outcomes]
    assert losses["bfloat16"] != losses["float32"]
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], atol=0.05)


def test_the_fused_step_takes_gradients_of_any_layout():
    generator = torch.Generator().manual_seed(0)
    start, slope = torch.randn(2, 3, 5, generator=generator)
    moved = []
    for gradient in (slope, slope.t().contiguous().t()):
        tensor = start.clone()
        tensor.grad = gradient
        AdamW([tensor], 0.1, (0.9, 0.999), 1e-8, 0.01).step()
        moved.append(tensor)
    torch.testing.assert_close(moved[0], moved[1], rtol=0, atol=0)
