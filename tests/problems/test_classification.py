"""Scoring against a loop over labels, predictions, the loss, and fine-tuning."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.label_scores import SharedPrompt, WholeSequences, label_scores
from fedscan.params.algebra import norm, subtract
from fedscan.problems.central_steps import Diverged
from fedscan.problems.classification import Classifier, TaskExamples, outcome
from fedscan.problems.fine_tuning import (
    Recipe,
    batches,
    initial_state,
    learning_rate,
    train_epoch,
)

MAMBA = Architecture(layout(2), 16, 8, 4, 2, 8, 2, 2, 40, 8, 8)
HYBRID = MAMBA._replace(mixers=layout(MAMBA.depth, (1,)))
# Prompts shorter than the convolution, at a chunk boundary, and longer than a chunk.
LENGTHS = (1, 2, 3, 8, 9, 20)
LABELS = [np.array(ids, np.uint16) for ids in ([5], [6, 7], [5, 9, 11, 3], [8] * 11)]


def examples(labels=LABELS):
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 40, n).astype(np.uint16) for n in LENGTHS]
    return TaskExamples(prompts, np.arange(len(prompts)) % len(labels), labels)


def tamed(shape, dtype=torch.float64):
    """A model whose weights matter: initial embeddings are too small to tell labels apart."""
    model = initialise(shape, 0).to(dtype)
    with torch.no_grad():
        model.backbone.embedding.weight *= 20
    return model


@torch.no_grad()
def loop(model, task):
    """The score by definition: one sequence per example and label."""
    found = np.empty((len(task.prompts), len(task.labels)))
    for i, prompt in enumerate(task.prompts):
        for j, label in enumerate(task.labels):
            ids = torch.from_numpy(np.concatenate([prompt, label]).astype(np.int64))[None]
            logs = F.log_softmax(model(ids)[0], -1)
            places = range(len(prompt) - 1, len(prompt) + len(label) - 1)
            found[i, j] = np.mean(
                [float(logs[p, int(t)]) for p, t in zip(places, label, strict=True)]
            )
    return found


class Exact(Classifier):
    """Float64, which the classifier itself never uses."""

    def place(self, params):
        return {name: tensor.double() for name, tensor in params.items()}


@torch.no_grad()
@pytest.mark.parametrize("shape", [MAMBA, HYBRID, MAMBA._replace(ngroups=1, chunk_size=4)])
@pytest.mark.parametrize("labels", [LABELS, LABELS[:1], [LABELS[0], np.array([7], np.uint16)]])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_scores_equal_a_loop_over_examples_and_labels(shape, labels, batch_size):
    model, task = tamed(shape), examples(labels)
    classifier = Exact(model, "float32", "cpu")
    params = classifier.place(dict(model.named_parameters()))
    found = classifier.scores(params, task, batch_size)
    expected = loop(model, task)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.ptp(expected) > 0.1


@torch.no_grad()
def test_float32_scores_equal_the_loop_to_1e6():
    model, task = tamed(MAMBA, torch.float32), examples()
    classifier = Classifier(model, "float32", "cpu")
    params = classifier.place(dict(model.named_parameters()))
    np.testing.assert_allclose(classifier.scores(params, task, 4), loop(model, task), atol=1e-5)
    double = tamed(MAMBA)
    np.testing.assert_allclose(loop(model, task), loop(double, task), atol=1e-5)


def test_the_shared_prompt_is_used_where_it_can_be():
    assert isinstance(label_scores(tamed(MAMBA)), SharedPrompt)
    assert isinstance(label_scores(tamed(HYBRID)), WholeSequences)


@torch.no_grad()
def test_a_prompt_is_read_once():
    model, seen = tamed(MAMBA, torch.float32), []
    model.backbone.layers[0].register_forward_hook(lambda *_: seen.append(1))
    model.backbone.embedding.register_forward_hook(
        lambda _m, inputs, _o: seen.append(inputs[0].numel())
    )
    task = examples()
    classifier = Classifier(model, "float32", "cpu")
    classifier.scores(classifier.place(dict(model.named_parameters())), task, 100)
    prompts, labels = len(LENGTHS) * max(LENGTHS), len(LENGTHS) * len(LABELS) * 10
    assert seen == [prompts, labels]


@torch.no_grad()
def test_bfloat16_stays_near_float32():
    model, task = tamed(MAMBA, torch.float32), examples()
    found = []
    for precision in ("float32", "bfloat16"):
        classifier = Classifier(model, precision, "cpu")
        found.append(classifier.scores(classifier.place(dict(model.named_parameters())), task, 4))
    np.testing.assert_allclose(found[0], found[1], atol=0.3)
    assert not np.array_equal(found[0], found[1])


def test_predictions_ties_and_nan():
    scores = np.array([[0.0, 1.0, 1.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = outcome(scores, np.array([1, 0, 2]))
    assert found.predictions.tolist() == [1, 0, 0]  # of equal scores the first label
    assert (found.correct, found.ties) == (2, 2)
    with pytest.raises(ArithmeticError, match="1 examples score NaN"):
        outcome(np.array([[0.0, np.nan], [1.0, 0.0]]), np.array([0, 0]))


def test_the_loss_is_of_label_tokens_alone():
    model, task = tamed(MAMBA), examples()
    classifier = Exact(model, "float32", "cpu")
    params = classifier.place(dict(model.named_parameters()))
    rows = [0, 2, 5]
    scores = loop(model, task)
    sizes = [len(task.labels[int(task.targets[row])]) for row in rows]
    total = sum(-scores[r, int(task.targets[r])] * n for r, n in zip(rows, sizes, strict=True))
    assert float(classifier.loss(params, task, rows)) == pytest.approx(total / sum(sizes), abs=1e-9)


RECIPE = Recipe(3, 2, 0.01, (0.9, 0.999), 1e-8, 0.01, 0.5, 0.1, 0.0)


def setup(mu=0.0, **changes):
    model = tamed(MAMBA, torch.float32)
    classifier = Classifier(model, "float32", "cpu")
    base = classifier.place({n: p.detach() for n, p in model.named_parameters()})
    return classifier, base, RECIPE._replace(mu=mu, **changes)


def trained(classifier, base, recipe, epochs=None):
    state, task = initial_state(base), examples()
    for epoch in range(1, (epochs or recipe.epochs) + 1):
        plan = batches(len(LENGTHS), recipe.batch_size, 0, "trec", epoch)
        result = train_epoch(classifier, task, base, recipe, state, plan)
        state = result.state
    return result


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_fine_tuning_is_torchs_adamw_with_a_proximal_term(mu):
    classifier, base, recipe = setup(mu)
    ours = trained(classifier, base, recipe)
    theirs = {name: tensor.clone().requires_grad_() for name, tensor in base.items()}
    optimizer = torch.optim.AdamW(theirs.values(), lr=1.0, weight_decay=recipe.weight_decay)
    task, step = examples(), 0
    for epoch in range(1, 4):
        for rows in batches(len(LENGTHS), 2, 0, "trec", epoch):
            step += 1
            optimizer.zero_grad()
            loss = classifier.loss(theirs, task, rows)
            loss = loss + mu / 2 * sum(((t - base[n]) ** 2).sum() for n, t in theirs.items())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(theirs.values(), recipe.clip_norm)
            optimizer.param_groups[0]["lr"] = learning_rate(recipe, step, 9)
            optimizer.step()
    assert step == ours.steps == 9
    for name, tensor in ours.state.params.items():
        torch.testing.assert_close(tensor, theirs[name].detach(), rtol=1e-4, atol=2e-5)


def test_training_lowers_the_loss_and_a_large_mu_holds_it_back():
    classifier, base, recipe = setup()
    first = trained(classifier, base, recipe, epochs=1)
    last = trained(classifier, base, recipe._replace(epochs=12))
    assert last.train_loss < 0.5 * first.train_loss
    held = trained(classifier, base, recipe._replace(epochs=12, mu=100.0))
    moved = [norm(subtract(r.state.params, base)) for r in (last, held)]
    assert moved[1] < 0.5 * moved[0]


def test_the_schedule_warms_up_and_ends_at_zero():
    recipe = RECIPE._replace(lr=1.0, warmup_share=0.1)
    rates = [learning_rate(recipe, step, 20) for step in range(1, 21)]
    assert rates[:2] == [0.5, 1.0]
    assert rates[2] == 1.0
    assert all(a >= b for a, b in zip(rates[1:], rates[2:], strict=False))
    assert learning_rate(recipe, 21, 20) == pytest.approx(0.0)
    assert learning_rate(recipe._replace(warmup_share=0.0), 1, 1) == 1.0


def test_batches_are_a_fresh_order_every_epoch_and_the_same_for_every_mu():
    one = batches(10, 4, 0, "trec", 1)
    assert sorted(i for rows in one for i in rows) == list(range(10))
    assert [len(rows) for rows in one] == [4, 4, 2]
    assert one == batches(10, 4, 0, "trec", 1)
    assert one not in (batches(10, 4, 0, "trec", 2), batches(10, 4, 1, "trec", 1))
    assert one != batches(10, 4, 0, "imdb", 1)


def test_no_argument_is_changed_and_state_goes_in_and_out():
    classifier, base, recipe = setup(0.1)
    before = {name: tensor.clone() for name, tensor in base.items()}
    state, task = initial_state(base), examples()
    plan = batches(len(LENGTHS), 2, 0, "trec", 1)
    train_epoch(classifier, task, base, recipe, state, plan)
    for found in (base, state.params):
        assert all(torch.equal(found[name], before[name]) for name in before)


def test_a_divergence_names_its_step():
    classifier, base, recipe = setup(lr=1e30)
    with pytest.raises(Diverged, match="non-finite") as failure:
        trained(classifier, base, recipe)
    assert failure.value.step >= 2
    assert math.isfinite(failure.value.step)
