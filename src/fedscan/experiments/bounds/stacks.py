"""Stage ``stacks``: multi-layer bounds on random and trained stacks. The paper stops at one layer.

Certified constants hold for all admissible inputs and may be vacuous (infinite) for later layers;
realised ones hold for the sequences they were taken from, and are ours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedscan.experiments.bounds.evaluation_tables import STACKS
from fedscan.experiments.teachers.datasets import Dataset, read_datasets
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.measure.curvature import hessian_norms
from fedscan.models.selective_ssm.layout import Blocks, Shape, blocks
from fedscan.models.selective_ssm.stability import softplus
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import VIOLATIONS
from fedscan.pipeline.violations import Violations
from fedscan.problems import stack
from fedscan.problems.learner import epoch_batches
from fedscan.seeds import generator
from fedscan.theory.common_stack import CommonStack, common_stack_bound
from fedscan.theory.constants import Constants, Norms, configured, spectral_norms
from fedscan.theory.overflow import infinite
from fedscan.theory.stack_gradient import stack_gradient_bound
from fedscan.theory.stack_inputs import stack_constants
from fedscan.theory.stack_smoothness import stack_smoothness_bound


class Point(NamedTuple):
    """A stack to evaluate."""

    depth: int
    rho: float
    origin: str
    scale: float | None
    point: int
    update: int | None
    params: np.ndarray  # (depth * parameters)


def run(job: Job) -> None:
    """Evaluate all stacks and write stacks.parquet and violations.parquet.

    Args:
        job: settings: sections ``stacks`` and ``learners``, ``sequence_length``, ``evaluation``;
            input ``teachers``, folder written by stage ``teachers`` for the stacks' (D, N).
    """
    settings, stacks = job.settings, job.settings["stacks"]
    shape = Shape(stacks["d_input"], stacks["d_state"])
    datasets = read_datasets(job.inputs["teachers"], shape, settings["sequence_length"])
    violations, rows = Violations(), []
    for rho in stacks["rhos"]:
        data = datasets[rho]
        tokens = np.ascontiguousarray(data.test[: stacks["sequences"], : stacks["length"]])
        for point in [*_random(shape, rho, stacks), *_trained(data, settings)]:
            rows.append(_evaluate(point, tokens, shape, settings["evaluation"], violations))
        job.report(f"rho {rho}: {len(rows)} stacks, {violations.count} violations so far")
    provenance = {"settings": settings, "versions": versions()}
    parquet.write(job.folder / "stacks.parquet", STACKS, rows, provenance)
    parquet.write(job.folder / "violations.parquet", VIOLATIONS, violations.rows, provenance)


def _random(shape: Shape, rho: float, stacks: Mapping[str, Any]) -> Iterator[Point]:
    for depth in stacks["depths"]:
        for scale in stacks["scales"]:
            for index in range(stacks["points"]):
                params = stack.random_stack(shape, depth, rho, scale, index)
                yield Point(depth, rho, "random", scale, index, None, params)


def _trained(data: Dataset, settings: Mapping[str, Any]) -> Iterator[Point]:
    stacks, learners = settings["stacks"], settings["learners"]
    seed, updates = learners["seeds"][0], stacks["updates"]
    tokens = np.ascontiguousarray(data.train[:, : stacks["length"]])
    batches = epoch_batches(len(tokens), learners["batch_size"], seed, 0, updates)
    for depth in stacks["depths"]:
        params = stack.initial_stack(data.shape, depth, data.margins, seed)
        yield Point(depth, data.rho, "trained", None, seed, 0, params)
        params = stack.train_stack(
            params, tokens, batches, data.shape, data.margins, learners["lr"]
        )
        yield Point(depth, data.rho, "trained", None, seed, updates, params)


def _evaluate(
    point: Point,
    tokens: np.ndarray,
    shape: Shape,
    evaluation: Mapping[str, Any],
    violations: Violations,
) -> dict[str, Any]:
    layers = [blocks(part, shape) for part in np.split(point.params, point.depth)]
    inputs = stack.layer_inputs(point.params, tokens, shape)
    certified, margins = _certified(layers, shape)
    realised, seen = _realised(layers, inputs, shape)
    losses, gradients = stack.gradients(point.params, tokens, shape)
    norms = np.linalg.norm(gradients, axis=1)
    hessians = _hessians(point.params, tokens, shape, evaluation)
    subject = {k: v for k, v in point._asdict().items() if k != "params"}
    mark = violations.at({**shape._asdict(), **subject}, point.params, tokens)
    before, common, bounds = violations.count, _common(certified), {}
    for suffix, constants in (("", certified), ("_realised", realised)):
        first, second = stack_gradient_bound(constants), stack_smoothness_bound(constants)
        bounds |= {f"G{suffix}": float(first.bound), f"L{suffix}": float(second.bound)}
        mark(f"stack gradient_norm <= G{suffix}", norms, first.bound)
        mark(f"stack hessian_norm <= L{suffix}", hessians, second.bound)
    # Closed forms bound the recursion they abbreviate.
    mark("stack G <= G_common", [bounds["G"]], common.gradient, [0])
    mark("stack L <= L_common", [bounds["L"]], common.smoothness, [0])
    for q, layer in enumerate(certified):
        mark("layer input <= L_x", [seen["input_maxima"][q]], layer.input_bound, [0])
        mark("certified delta <= step", [margins[q]], seen["step_minima"][q], [0])
    return {
        **subject,
        "loss": float(losses.mean()),
        "gradient_median": float(np.median(norms)),
        "gradient_max": float(norms.max()),
        "hessian_max": float(hessians.max()),
        **bounds,
        **_constants_columns(certified, margins, common),
        **seen,
        "checks": 4 * len(tokens) + 2 + 2 * point.depth,
        "violations": violations.count - before,
    }


def _constants_columns(
    certified: list[Constants], margins: list[float], common: CommonStack
) -> dict[str, Any]:
    return {
        "G_common": float(common.gradient),
        "L_common": float(common.smoothness),
        "input_bounds": [float(layer.input_bound) for layer in certified],
        "step_margins": margins,
        "rhos": [float(layer.rho) for layer in certified],
        "overflow": ",".join(infinite(stack_smoothness_bound(certified))),
    }


def _certified(layers: list[Blocks], shape: Shape) -> tuple[list[Constants], list[float]]:
    """Return constants for all admissible inputs, and each layer's certified step margin."""
    norms = [spectral_norms(*layer) for layer in layers]
    rows = [float(np.linalg.norm(layer.W_delta, axis=1).max()) for layer in layers]
    gammas = [float(np.min(-layer.A)) for layer in layers]
    first = float(softplus(layers[0].W_delta).min())
    constants = stack_constants(norms, rows, gammas, gammas[0] * first, *shape)
    with np.errstate(under="ignore", over="ignore"):
        reach = [row * float(c.input_bound) for row, c in zip(rows, constants, strict=True)]
        margins = [first, *(float(np.logaddexp(0.0, -r)) for r in reach[1:])]
    return constants, margins


def _realised(
    layers: list[Blocks], inputs: list[np.ndarray], shape: Shape
) -> tuple[list[Constants], dict[str, list[float]]]:
    """Return constants taken from the sequences themselves, and the extremes seen."""
    constants = []
    seen: dict[str, list[float]] = {"input_maxima": [], "step_minima": [], "rhos_realised": []}
    for layer, x in zip(layers, inputs, strict=True):
        largest = float(np.linalg.norm(x, axis=-1).max())
        step = float(softplus(x @ layer.W_delta.T).min())
        norms: Norms = spectral_norms(*layer)
        constants.append(configured(norms, float(np.min(-layer.A)) * step, *shape, largest))
        seen["input_maxima"].append(largest)
        seen["step_minima"].append(step)
        seen["rhos_realised"].append(float(constants[-1].rho))
    return constants, seen


def _common(layers: list[Constants]) -> CommonStack:
    """Return the closed forms with the largest constant of any layer in every place."""
    largest = {
        name: np.max([getattr(layer, name) for layer in layers], axis=0)
        for name in Constants._fields
        if name not in ("d_input", "d_state")
    }
    return common_stack_bound(layers[0]._replace(**largest), len(layers))


def _hessians(
    params: np.ndarray, tokens: np.ndarray, shape: Shape, evaluation: Mapping[str, Any]
) -> np.ndarray:
    starts = generator(0, "power iteration").normal(size=(len(tokens), len(params)))

    def products(directions: np.ndarray, active: np.ndarray) -> np.ndarray:
        return stack.hessian_products(params, directions, tokens[active], shape)

    return hessian_norms(products, starts, evaluation["iterations"], evaluation["tolerance"]).norms
