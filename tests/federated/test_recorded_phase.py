"""The recorded phase against the plain one, without a graph: same numbers, same refusals."""

import math

import pytest
import torch

from fedscan.federated import cuda_graph, engine
from fedscan.federated.algorithm import LocalContext
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.build import build
from fedscan.federated.local_phase import Diverged, local_phase
from fedscan.federated.recorded_phase import RecordedPhase
from fedscan.models.symmetries import permutation_groups
from tests.federated.conformance import ROWS, SCAFFOLD
from tests.problems.test_language_model import SHAPE, problem

FACTS = {"permutation_groups": permutation_groups(SHAPE)}


def unrecorded(step):
    """Rehearse as a capture does, then run the step itself."""
    step()
    step()
    return step


def rounds(problem, algorithm, recorded, count=3):
    phase = RecordedPhase(problem, algorithm, unrecorded) if recorded else local_phase
    state = engine.initial_state(problem, algorithm)
    return list(engine.run(problem, algorithm, count, state, phase))


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        for name, tensor in other.state.params.items():
            torch.testing.assert_close(one.state.params[name], tensor, rtol=1e-5, atol=1e-6)
        for a, b in zip(one.outcomes, other.outcomes, strict=True):
            torch.testing.assert_close(a.losses, b.losses, rtol=1e-5, atol=0)
            torch.testing.assert_close(a.norms, b.norms, rtol=1e-5, atol=0)
            assert a.skipped_steps == b.skipped_steps


@pytest.mark.parametrize("name", ROWS)
def test_every_algorithm_gives_the_plain_phases_numbers(name):
    values = ROWS[name].ordinary
    if "refresh_every" in values:
        values = values | {"refresh_every": 2}
    algorithm = build(name, values, FACTS)
    assert_same(rounds(problem(), algorithm, True), rounds(problem(), algorithm, False))


def test_earlier_results_are_not_overwritten():
    p, algorithm = problem(), ALGORITHMS["scaffold"](**SCAFFOLD)
    first, second = (
        [{k: t.clone() for k, t in r.state.params.items()} for r in results]
        for results in (rounds(p, algorithm, True), rounds(p, algorithm, True))
    )
    kept = [r.state.params for r in rounds(p, algorithm, True)]
    for stored in (first, second):
        for one, other in zip(stored, kept, strict=True):
            assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_overflowing_steps_are_skipped_and_the_scale_follows(name):
    algorithm = build(name, ROWS[name].ordinary, FACTS)
    found = []
    for recorded in (True, False):
        p = problem()
        original = p.gradient

        def overflowing(params, batch, scale, original=original):
            loss, gradient = original(params, batch, 1.0)
            factor = torch.where(torch.as_tensor(scale) > 16384.0, math.inf, 1.0)
            return loss, {n: tensor * factor for n, tensor in gradient.items()}

        p.gradient, p.loss_scale = overflowing, 65536.0
        found.append(rounds(p, algorithm, recorded))
    assert_same(*found)
    assert [o.skipped_steps for o in found[0][0].outcomes] == [2, 2]


@pytest.mark.parametrize("recorded", [False, True])
def test_rounds_with_loss_scaling_are_rounds_without(recorded):
    algorithm, scaled = ALGORITHMS["fedavg"](), problem()
    scaled.loss_scale = 1024.0
    assert_same(rounds(scaled, algorithm, recorded), rounds(problem(), algorithm, False))


def test_a_non_finite_step_ends_the_run_as_in_the_plain_phase():
    p, algorithm = problem(), ALGORITHMS["fedavg"]()
    original = p.gradient

    def broken(params, batch, scale):
        loss, gradient = original(params, batch, scale)
        return loss, {name: tensor * math.nan for name, tensor in gradient.items()}

    p.gradient = broken
    with pytest.raises(Diverged, match="non-finite gradient in local step 1 at client 0, round 1"):
        rounds(p, algorithm, True)


def test_a_recording_serves_its_own_run_only():
    algorithm = ALGORITHMS["fedavg"]()
    phase = RecordedPhase(problem(), algorithm, unrecorded)
    other = problem()
    state = engine.initial_state(other, algorithm)
    with pytest.raises(ValueError, match="serves one problem and one algorithm"):
        next(engine.run(other, algorithm, 1, state, phase))


def test_an_optimiser_that_cannot_start_again_is_refused():
    p, algorithm = problem(), ALGORITHMS["fedavg"]()
    p.optimizer = lambda tensors: torch.optim.SGD(tensors, lr=0.1)
    with pytest.raises(ValueError, match=r"SGD cannot be recorded: it has no reset\(\)"):
        rounds(p, algorithm, True, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_graph_needs_a_cuda_device():
    with pytest.raises(ValueError, match="on a CUDA device only; use 'eager'"):
        cuda_graph.capture(lambda: None)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("scaled", [False, True])
def test_a_step_never_reads_from_the_device(name, scaled):
    # Tensors on the meta device have no values: a step that asked for one would fail here, as it
    # would fail, or be recorded wrongly, in a CUDA graph.
    p, algorithm = problem(device="meta"), build(name, ROWS[name].ordinary, FACTS)
    p.loss_scale = 65536.0 if scaled else None
    state = engine.initial_state(p, algorithm)
    context = LocalContext(state.params, state.server, state.clients[0], 2, 3, 0.01)
    recording = RecordedPhase(p, algorithm, unrecorded).prepared(context, 0)
    recording.replay()
