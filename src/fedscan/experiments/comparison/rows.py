"""Rows of the run tables, gathered round by round."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from fedscan.federated import engine
from fedscan.federated.local_phase import Diverged, LocalOutcome
from fedscan.io.provenance import canonical_json
from fedscan.measure.drift import Drift, drift
from fedscan.measure.perplexity import perplexity
from fedscan.pipeline.timer import Timer
from fedscan.problems.language_model import LanguageModelProblem

LAST_ROUNDS = 10


class Rows(NamedTuple):
    """All rows of one run."""

    runs: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    clients: list[dict[str, Any]]
    mixers: list[dict[str, Any]]
    heads: list[dict[str, Any]]


@dataclass
class Record:
    """Rows of a run so far, and its failure, if any."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    mixers: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    failure: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Record":
        """Read what ``to_json`` wrote."""
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-like data; floats keep all digits."""
        return asdict(self)

    def add(self, result: engine.RoundResult, problem: LanguageModelProblem, value: str) -> None:
        """Append one round."""
        moved = drift(
            result.updates,
            problem.weights,
            result.mean_update,
            result.previous,
            result.state.params,
        )
        index = result.state.round_index
        clients = [
            _client_row(value, index, client, outcome, moved, problem.clip_norm)
            for client, outcome in enumerate(result.outcomes)
        ]
        self.clients += clients
        self.rounds.append(
            {
                "value": value,
                "round": index,
                "train_ppl": _mean([row["train_ppl"] for row in clients]),
                "val_loss": result.val_loss,
                "val_ppl": perplexity(result.val_loss),
                "client_drift_mean": _mean(moved.client_drift),
                "client_drift_max": max(moved.client_drift),
                "mean_update_norm": moved.mean_update_norm,
                "server_displacement": moved.server_displacement,
                "update_dispersion": moved.update_dispersion,
                "cosine_to_mean": _mean(moved.cosine_to_mean),
                "internals": canonical_json(dict(result.internals)),
            }
        )

        for mixer in problem.stability(result.state.params):
            place = {"value": value, "round": index, "layer": mixer.layer}
            norms = {f"spectral_norm_{k}": v for k, v in mixer.spectral_norms.items()}
            self.mixers.append(place | norms)
            for head, decay in enumerate(mixer.decay):
                stats = zip(("decay_min", "decay_median", "decay_max"), decay, strict=True)
                self.heads.append({**place, "head": head, **dict(stats)})

    def require_finite_perplexity(self) -> None:
        """Raise if the last round's perplexity overflowed.

        Raises:
            Diverged: naming the round.
        """
        last = self.rounds[-1]
        if not math.isfinite(last["val_ppl"]):
            raise Diverged("validation perplexity overflow", last["round"], None)

    def fail(self, failure: Diverged) -> None:
        """Record why the run ended."""
        self.failure = {
            "failure": str(failure),
            "failed_round": failure.round_index,
            "failed_client": failure.client,
        }

    def status(self, total: int, timer: Timer) -> str:
        """Return one line on the last round for a person to follow."""
        last = self.rounds[-1]
        return (
            f"round {last['round']}/{total}: train ppl {last['train_ppl']:.2f},"
            f" val ppl {last['val_ppl']:.2f}, ETA {timer.left(last['round'], total)}"
        )

    def rows(
        self, value: str, hyperparameters: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> Rows:
        """Return the run's rows; metrics of a failed run are NaN, its rounds are kept."""
        failed = self.failure is not None
        val = [math.nan] if failed else [row["val_ppl"] for row in self.rounds]
        train = [math.nan] if failed else [row["train_ppl"] for row in self.rounds]
        no_failure = {"failure": None, "failed_round": None, "failed_client": None}
        run = {
            "value": value,
            "hyperparameters": json.dumps(dict(hyperparameters), sort_keys=True),
            "status": "failed" if failed else "completed",
            **(self.failure or no_failure),
            "rounds": len(self.rounds),
            "train_ppl": _mean(train),
            "val_ppl": _mean(val),
            "val_ppl_last10": _mean(val[-LAST_ROUNDS:]),
            **facts,
        }
        return Rows([run], self.rounds, self.clients, self.mixers, self.heads)


def _client_row(
    value: str,
    index: int,
    client: int,
    outcome: LocalOutcome,
    moved: Drift,
    clip_norm: float | None,
) -> dict[str, Any]:
    loss = float(outcome.losses.mean())
    clipped = 0 if clip_norm is None else int((outcome.norms > clip_norm).sum())
    return {
        "value": value,
        "round": index,
        "client": client,
        "train_loss": loss,
        "train_ppl": perplexity(loss),
        "gradient_norm": float(outcome.norms.mean()),
        "clipped_steps": clipped,
        "skipped_steps": outcome.skipped_steps,
        "client_drift": moved.client_drift[client],
        "cosine_to_mean": moved.cosine_to_mean[client],
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
