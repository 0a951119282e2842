"""Merge operators: identities, an independent implementation, memory and refusals."""

import weakref

import numpy as np
import pytest
import torch

from fedscan.federated import engine
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.operators import OPERATORS
from fedscan.operators.direction import merge, task_vector
from fedscan.operators.ties import threshold
from fedscan.params.algebra import subtract
from fedscan.problems.language_model import LanguageModelProblem, Schedule

SHAPES = {"a.weight": (7, 5), "b": (11,), "c": (2, 3, 4)}


def model(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(s, generator=generator).to(dtype) for n, s in SHAPES.items()}


BASE, EXPERTS = model(0), [model(seed) for seed in (1, 2, 3, 4)]


def merged(operator, scale, base=BASE, experts=EXPERTS, **own):
    return merge(base, OPERATORS[operator](base, experts, **own), scale)


def close(one, other, atol=1e-6):
    assert list(one) == list(other)
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=atol)


def test_averaging_is_the_mean_of_the_models():
    mean = {name: torch.stack([e[name] for e in EXPERTS]).mean(0) for name in BASE}
    close(merged("average", 1.0), mean)


def test_averaging_is_one_round_of_fedavg_bit_for_bit():
    rng = np.random.default_rng(0)
    data = [rng.integers(0, 40, (6, 12)).astype(np.uint16) for _ in range(4)]
    schedule = Schedule(3, 2, 0.01, (0.9, 0.999), 1e-8, 0.0, 1.0, 4)
    shape = Architecture(layout(1), 16, 8, 4, 2, 8, 1, 2, 40, 8, 8)
    problem = LanguageModelProblem(
        initialise(shape, 0), data, data[0], schedule, 0, "float32", "cpu"
    )
    start = engine.initial_state(problem, fedavg())
    (result,) = engine.run(problem, fedavg(), 1, start)
    experts = [outcome.result.params for outcome in result.outcomes]
    close(merged("average", 1.0, start.params, experts), result.state.params, atol=0)
    moved = subtract(result.state.params, start.params)
    assert max(float(tensor.abs().max()) for tensor in moved.values()) > 1e-3


def test_task_arithmetic_at_one_over_m_is_the_average():
    close(merged("task_arithmetic", 0.25), merged("average", 1.0))


@pytest.mark.parametrize(("operator", "own"), [
    ("average", {}), ("task_arithmetic", {}), ("ties", {"density": 1.0}),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_single_expert_at_full_scale_is_returned(operator, own, dtype):
    base, expert = model(0, dtype), model(1, dtype)
    found = merged(operator, 1.0, base, [expert], **own)
    assert all(tensor.dtype == dtype for tensor in found.values())
    for name, tensor in found.items():
        # A float32 sum of differences, rounded to the stored dtype.
        torch.testing.assert_close(tensor, expert[name], rtol=1e-6, atol=1e-6)


def test_ties_keeps_all_and_signs_agree_is_the_mean():
    experts = [{n: BASE[n] + e[n].abs() for n in BASE} for e in EXPERTS]
    close(
        merged("ties", 1.0, experts=experts, density=1.0), merged("average", 1.0, experts=experts)
    )


@pytest.mark.parametrize("density", [0.1, 0.29, 0.5, 0.9])
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.3])
def test_ties_and_task_arithmetic_equal_peft(density, scale):
    peft = pytest.importorskip("peft.utils.merge_utils")

    def flat(params):
        return torch.cat([params[name].flatten() for name in BASE])

    vectors = [flat(expert) - flat(BASE) for expert in EXPERTS]
    if density == 0.29:  # of 70 entries 20.3: both keep 20
        assert int(density * len(vectors[0])) == 20
    # peft weighs before it averages: four weights of lambda are our scale.
    theirs = peft.ties(vectors, torch.full((4,), scale), density)
    ours = flat(merged("ties", scale, density=density)) - flat(BASE)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    theirs = peft.task_arithmetic(vectors, torch.full((4,), scale))
    ours = flat(merged("task_arithmetic", scale)) - flat(BASE)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_ties_by_hand():
    base = {"w": torch.zeros(4)}
    experts = [{"w": torch.tensor(row)} for row in (
        [3.0, -1.0, 0.1, 2.0], [1.0, 2.0, -0.2, -2.0], [-2.0, 1.5, 0.0, 0.3],
    )]  # fmt: skip
    # Half of the entries: |3|, |2|; |2|, |2|; |2|, |1.5|. Elected: +, +, none, none.
    found = OPERATORS["ties"](base, experts, density=0.5)
    ((_, direction),) = found()
    assert direction.tolist() == [3.0, 1.75, 0.0, 0.0]
    assert merge(base, found, 2.0)["w"].tolist() == [6.0, 3.5, 0.0, 0.0]


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize("density", [0.01, 0.1, 0.29, 0.5, 1.0])
def test_the_threshold_is_the_kth_largest_magnitude(scale, density):
    base = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    expert = {name: scale * tensor for name, tensor in EXPERTS[0].items()}
    magnitudes = torch.cat([t.abs().flatten() for t in expert.values()])
    kept = max(int(round(density * 1e6) * len(magnitudes) // 10**6), 1)
    expected = magnitudes.sort(descending=True).values[kept - 1]
    assert threshold(base, expert, density) == float(expected)


@pytest.mark.parametrize(("density", "kept"), [(0.29, 29), (0.57, 57), (0.58, 58), (0.005, 1)])
def test_the_share_that_is_kept_is_the_number_as_written(density, kept):
    # The doubles' products with 100 are 28.999…, 56.999… and 57.999….
    expert = {"w": torch.arange(100, 0, -1).float()}
    assert threshold({"w": torch.zeros(100)}, expert, density) == 101 - kept


def test_equal_magnitudes_are_all_kept_and_zeros_never_vote():
    base = {"w": torch.zeros(5)}
    expert = {"w": torch.tensor([1.0, -1.0, 1.0, 0.5, 0.0])}
    found = merge(base, OPERATORS["ties"](base, [expert], density=0.2), 1.0)
    assert found["w"].tolist() == [1.0, -1.0, 1.0, 0.0, 0.0]


class Counting(dict):
    """Counts the tensors that were asked for and are still alive."""

    alive = most = 0

    def __getitem__(self, name):
        tensor = super().__getitem__(name).clone()
        Counting.alive += 1
        Counting.most = max(Counting.most, Counting.alive)
        weakref.finalize(tensor, Counting.drop)
        return tensor

    @classmethod
    def drop(cls):
        cls.alive -= 1


@pytest.mark.parametrize(("operator", "own"), [
    ("average", {}), ("task_arithmetic", {}), ("ties", {"density": 0.3}),
])  # fmt: skip
def test_experts_are_read_tensor_by_tensor(operator, own):
    Counting.alive = Counting.most = 0
    lazy = [Counting(expert) for expert in EXPERTS]
    close(merged(operator, 0.7, experts=lazy, **own), merged(operator, 0.7, **own), atol=0)
    assert Counting.most <= 2


@pytest.mark.parametrize("operator", ["average", "task_arithmetic"])
def test_bfloat16_sums_are_kept_wide(operator):
    base = {"w": torch.ones(1, dtype=torch.bfloat16)}
    # 1 + 2^-8 is no bfloat16, but 1 + 2^-7 is: two half steps must add up before rounding.
    expert = {"w": torch.tensor([1 + 2**-7], dtype=torch.bfloat16)}
    own = {"average": 1.0, "task_arithmetic": 0.5}[operator]
    found = merged(operator, own, base, [expert, expert])
    assert found["w"].tolist() == expert["w"].tolist()


def test_arguments_stay_as_they_were():
    before = [{n: t.clone() for n, t in m.items()} for m in (BASE, *EXPERTS)]
    for operator, own in (("average", {}), ("task_arithmetic", {}), ("ties", {"density": 0.3})):
        merged(operator, 0.7, **own)
    for found, kept in zip((BASE, *EXPERTS), before, strict=True):
        assert all(torch.equal(found[name], kept[name]) for name in kept)


@pytest.mark.parametrize("density", [0.0, -0.1, 1.1])
def test_a_density_outside_its_range_is_refused(density):
    with pytest.raises(ValueError, match=r"density is .*expected a share in \(0, 1\]"):
        merged("ties", 1.0, density=density)


@pytest.mark.parametrize(("operator", "own"), [
    ("average", {}), ("task_arithmetic", {}), ("ties", {"density": 0.3}),
])  # fmt: skip
def test_no_expert_is_refused(operator, own):
    with pytest.raises(ValueError, match=f"{operator} needs at least one expert"):
        OPERATORS[operator](BASE, [], **own)


def test_an_expert_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"'b' has shape \(12,\), expected \(11,\)"):
        task_vector(BASE, {"b": torch.zeros(12)}, "b")
