"""One claim on one instance."""

import json
from typing import Any, NamedTuple

import numpy as np

# What sums of rounded numbers allow a bound to be passed by, relative.
ROUNDING = 1e-9
BOUND, IDENTITY, LIMIT = "bound", "identity", "limit"


class Claim(NamedTuple):
    """A row of table ``sessa_claims``, without group and hashes."""

    claim: str
    source: str
    instance: str
    kind: str
    measured: float
    bound: float
    applicable: bool = True

    @property
    def violated(self) -> bool:
        """Whether it applies and does not hold; what is not a number never holds."""
        return self.applicable and not self.measured <= self.bound * (1 + ROUNDING)

    def row(self) -> dict[str, Any]:
        """Return the columns of the table."""
        held_at_zero = 0.0 if self.measured <= 0 else np.inf
        ratio = self.measured / self.bound if self.bound else held_at_zero
        return {**self._asdict(), "ratio": float(ratio), "violated": self.violated}


def at_most(
    claim: str, source: str, measured: float, bound: float | None, **instance: Any
) -> Claim:
    """Return a claim that a measured value is at most a bound.

    Args:
        claim: short name.
        source: place in the paper.
        measured: left-hand side.
        bound: right-hand side; None where nothing is claimed.
        **instance: its parameters.
    """
    text = json.dumps(instance, sort_keys=True)
    if bound is None:
        return Claim(claim, source, text, BOUND, float(measured), np.nan, applicable=False)
    return Claim(claim, source, text, BOUND, float(measured), float(bound))


def equal(
    claim: str, source: str, found: Any, wanted: Any, tolerance: float, **instance: Any
) -> Claim:
    """Return a claim that two values are the same.

    Args:
        claim: short name.
        source: place in the paper.
        found: a number or array.
        wanted: what it is to be.
        tolerance: largest difference, absolute, that rounding allows.
        **instance: its parameters.
    """
    return _near(IDENTITY, claim, source, found, wanted, tolerance, instance)


def tends_to(
    claim: str, source: str, found: Any, limit: Any, tolerance: float, **instance: Any
) -> Claim:
    """Return a claim that a value far out is near what it tends to.

    Args:
        claim: short name.
        source: place in the paper.
        found: a number or array.
        limit: what it tends to.
        tolerance: largest difference that is still to be expected there.
        **instance: its parameters.
    """
    return _near(LIMIT, claim, source, found, limit, tolerance, instance)


def _near(
    kind: str, claim: str, source: str, found: Any, wanted: Any, tolerance: float, instance: Any
) -> Claim:
    difference = float(np.max(np.abs(np.asarray(found, float) - np.asarray(wanted, float))))
    return Claim(claim, source, json.dumps(instance, sort_keys=True), kind, difference, tolerance)
