"""Rows of a federated synthetic run, and what is measured for them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedscan.experiments.students.bounds import (
    Reference,
    local_bound,
    point_gradient_bounds,
    server_bound,
)
from fedscan.federated import engine
from fedscan.federated.local_phase import Diverged
from fedscan.measure.drift import drift
from fedscan.models.selective_ssm import cpu
from fedscan.params.algebra import norm
from fedscan.pipeline.violations import Mark
from fedscan.problems.teacher_student import TeacherStudentProblem, to_vector
from fedscan.theory.heterogeneity import disagreement_bound

ROUND_NUMBERS = (
    "client_drift_mean",
    "client_drift_max",
    "displacement_max",
    "server_displacement",
    "projected",
    "local_bound",
    "server_bound",
    "G",
    "G_tight",
    "disagreement",
    "disagreement_bound",
    "disagreement_bound_tight",
    "token_level",
)


@dataclass
class StudentRecord:
    """Rows of a run so far, its violations, and its failure, if any."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    checks: int = 0
    broken: int = 0
    certified: bool = True
    failure: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "StudentRecord":
        """Read what ``to_json`` wrote."""
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-like data; floats keep all digits."""
        return asdict(self)

    def fail(self, failure: Diverged) -> None:
        """Record where the run became non-finite."""
        self.failure = {
            "failure": str(failure),
            "failed_round": failure.round_index,
            "failed_client": failure.client,
        }


class Bench:
    """Measures one run: bounds at a broadcast model, distances of a round."""

    def __init__(
        self,
        problem: TeacherStudentProblem,
        ref: Reference,
        rho: float,
        subset: np.ndarray,
        squared_tv: Mapping[str, float],
        every: int,
    ) -> None:
        """Bind a run.

        Args:
            problem: clients and test data.
            ref: radius and envelopes.
            rho: configured stability limit.
            subset: (sequences, length) on which ||grad f||^2 is measured.
            squared_tv: sum_k p_k TV_k^2 by 'sequence', 'bigram', 'unigram'.
            every: rounds between evaluations of bounds.
        """
        self.problem, self.ref, self.rho, self.subset = problem, ref, rho, subset
        self.squared_tv, self.every = squared_tv, every

    def broadcast(
        self, record: StudentRecord, state: engine.RunState, test_nll: float, mark: Mark
    ) -> None:
        """Append the row of W^r: gradient, and every few rounds the bounds."""
        vector = to_vector(state.params).astype(np.float64)
        _, gradient = cpu.gradient(vector, self.subset, self.problem.shape)
        row: dict[str, Any] = dict.fromkeys(ROUND_NUMBERS)
        row |= {
            "round": state.round_index,
            "gradient_squared": float(gradient @ gradient),
            "test_nll": test_nll,
        }
        if state.round_index % self.every == 0:
            row |= self._evaluated(vector, row["gradient_squared"], record, mark)
        record.rounds.append(row)

    def _evaluated(
        self, vector: np.ndarray, squared: float, record: StudentRecord, mark: Mark
    ) -> dict[str, float]:
        problem = self.problem
        length = self.subset.shape[1]
        g, tight = point_gradient_bounds(vector, problem.shape, self.rho, length)
        gradients = np.stack(
            [cpu.gradient(vector, part, problem.shape)[1] for part in problem.client_tokens]
        )
        weights = np.asarray(problem.weights)
        deviations = np.sum((gradients - weights @ gradients) ** 2, axis=1)
        disagreement, h = float(weights @ deviations), self.squared_tv["sequence"]
        bounds = {
            "disagreement_bound": float(disagreement_bound(g, h)),
            "disagreement_bound_tight": float(disagreement_bound(tight, h)),
        }
        size = float(np.sqrt(squared))
        _check(record, mark, "subset gradient <= G", size, g)
        _check(record, mark, "subset gradient <= G_tight", size, tight)
        for name, bound in bounds.items():
            _check(record, mark, f"disagreement <= {name}", disagreement, bound)
        return {
            "G": g,
            "G_tight": tight,
            "disagreement": disagreement,
            **bounds,
            "token_level": float(disagreement_bound(tight, self.squared_tv["bigram"])),
        }

    def moved(
        self,
        record: StudentRecord,
        before: engine.RunState,
        result: engine.RoundResult,
        mark: Mark,
    ) -> None:
        """Complete the row of W^r by what the round that started there did."""
        distances = drift(
            result.updates,
            self.problem.weights,
            result.mean_update,
            result.previous,
            result.state.params,
        )
        traces = [outcome.trace or {} for outcome in result.outcomes]
        farthest = max(trace["displacement"] for trace in traces)
        duals = [norm(client["dual"]) for client in before.clients if "dual" in client]
        reach = local_bound(self.ref, {"client_dual": max(duals, default=0.0)})
        server = server_bound(self.ref, reach, result.internals)
        record.rounds[-1] |= {
            "client_drift_mean": float(np.mean(distances.client_drift)),
            "client_drift_max": max(distances.client_drift),
            "displacement_max": farthest,
            "server_displacement": distances.server_displacement,
            "projected": float(sum(trace["projected"] for trace in traces)),
            "local_bound": reach,
            "server_bound": server,
        }
        record.certified &= all(bool(trace["stable"]) for trace in traces)
        if reach is not None:
            _check(record, mark, "local displacement <= local_bound", farthest, reach)
        if server is not None:
            displacement = distances.server_displacement
            _check(record, mark, "server displacement <= server_bound", displacement, server)


def _check(record: StudentRecord, mark: Mark, name: str, measured: float, bound: float) -> None:
    record.checks += 1
    record.broken += int(mark(name, [measured], bound, [0]).sum())
