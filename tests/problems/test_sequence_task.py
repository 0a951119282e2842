"""Tasks with answers at some positions: loss by hand, padding, scoring, clients."""

import math

import numpy as np
import pytest
import torch

from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.models.sequence_model import initialise
from fedscan.models.sequence_shape import KINDS, SequenceShape
from fedscan.problems.language_model import Schedule
from fedscan.problems.sequence_task import SequenceClients, SequenceTask, TaskSequences

SHAPE = SequenceShape("sessa", 11, 16, 1, 2, 2, "authors", 0.999, 8, 8, False)


def bound(mixer="sessa", precision="float32"):
    model = initialise(SHAPE._replace(mixer=mixer), 0)
    task = SequenceTask(model, precision, "cpu")
    params = {name: t.detach().clone() for name, t in model.named_parameters()}
    return model, task, task.place(params)


def drawn(lengths, seed=0, answers=2):
    rng = np.random.default_rng(seed)
    tokens = [rng.integers(11, size=n) for n in lengths]
    wanted = []
    for n in lengths:
        row = np.full(n, -1)
        row[rng.choice(n, size=min(answers, n), replace=False)] = rng.integers(11)
        wanted.append(row)
    return TaskSequences(tokens, wanted)


def by_hand(model, sequences):
    """Losses of every answer, a sequence at a time, nothing padded."""
    losses = []
    for tokens, answers in zip(*sequences, strict=True):
        logits = model.logits(model(torch.from_numpy(tokens)[None]))[0].log_softmax(-1)
        losses += [-logits[t, a] for t, a in enumerate(answers) if a >= 0]
    return torch.stack(losses)


@pytest.mark.parametrize("mixer", KINDS)
def test_loss_and_gradient_are_those_of_single_sequences(mixer):
    model, task, params = bound(mixer)
    sequences = drawn([9, 5, 13])
    loss, gradient = task.gradient(params, sequences)
    wanted = by_hand(model, sequences).mean()
    wanted.backward()
    torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-6)
    for name, tensor in model.named_parameters():
        torch.testing.assert_close(gradient[name], tensor.grad, rtol=1e-4, atol=1e-6)


def test_a_scaled_loss_has_the_same_gradient():
    _, task, params = bound()
    sequences = drawn([7, 7])
    _, plain = task.gradient(params, sequences)
    _, scaled = task.gradient(params, sequences, torch.tensor(1024.0))
    for name, tensor in plain.items():
        torch.testing.assert_close(scaled[name], tensor, rtol=1e-5, atol=1e-7)


def test_what_follows_a_sequence_changes_nothing():
    _, task, params = bound()
    short, long = drawn([6]), drawn([30], seed=3)
    both = TaskSequences([*short.tokens, *long.tokens], [*short.answers, *long.answers])
    alone = task.score(params, short, range(11), 4)
    together = task.score(params, both, range(11), 4)
    count = len(alone.loss)
    np.testing.assert_allclose(together.loss[:count], alone.loss, rtol=1e-5)


def test_scores_by_hand():
    model, task, params = bound()
    sequences, allowed = drawn([9, 5, 13], answers=3), range(4, 11)
    answers = [np.where(a >= 0, np.maximum(a, 4), -1) for a in sequences.answers]
    sequences = TaskSequences(sequences.tokens, answers)
    found = task.score(params, sequences, allowed, 2)
    correct, top, index = [], [], []
    for i, (tokens, wanted) in enumerate(zip(*sequences, strict=True)):
        logits = model.logits(model(torch.from_numpy(tokens)[None]))[0].detach().numpy()
        for t, a in enumerate(wanted):
            if a >= 0:
                ranks = np.argsort(-logits[t, 4:]) + 4
                correct.append(ranks[0] == a)
                top.append(a in ranks[:5])
                index.append(i)
    assert found.correct.tolist() == correct
    assert found.top.tolist() == top
    assert found.sequence.tolist() == index
    np.testing.assert_allclose(found.loss, by_hand(model, sequences).detach(), rtol=1e-5)


def test_half_precision_keeps_losses_wide():
    _, task, params = bound(precision="bfloat16")
    loss, gradient = task.gradient(params, drawn([9, 9]))
    assert loss.dtype == torch.float32
    assert all(tensor.dtype == torch.float32 for tensor in gradient.values())
    _, plain, _ = bound()
    torch.testing.assert_close(loss, plain.gradient(params, drawn([9, 9]))[0], rtol=0.05, atol=0.05)


def test_one_token_and_a_row_of_padding_alone_are_valid():
    _, task, params = bound()
    one = TaskSequences([np.array([3])], [np.array([5])])
    assert math.isfinite(float(task.gradient(params, one)[0]))


def clients():
    _, task, params = bound(mixer="mha")
    schedule = Schedule(3, 4, 0.01, (0.9, 0.99), 1e-8, 0.0, 1.0, 8)
    # The answer is the token itself: clients agree.
    parts = [TaskSequences(d.tokens, d.tokens) for d in (drawn([7] * 6, seed=k) for k in range(4))]
    return SequenceClients(task, params, parts[:3], parts[3], schedule, 0)


def test_clients_train_federatedly():
    problem = clients()
    assert sum(problem.weights) == pytest.approx(1)
    algorithm = ALGORITHMS["fedavg"]()
    start = engine.initial_state(problem, algorithm)
    results = list(engine.run(problem, algorithm, 6, start))
    assert results[-1].val_loss < problem.evaluate(start.params)
    again = list(engine.run(clients(), algorithm, 6, start))
    assert again[-1].val_loss == results[-1].val_loss


def test_batches_depend_on_their_client_and_round_alone():
    problem = clients()
    first = [b.tokens for b in problem.batches(1, 2)]
    list(problem.batches(0, 1))
    again = [b.tokens for b in problem.batches(1, 2)]
    assert len(first) == 3
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
