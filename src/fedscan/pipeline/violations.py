"""Violations of bounds: counted all, and stored with what reproduces them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedscan.io.provenance import canonical_json

# A measured value violates a bound if it exceeds it by more than this share (Appendix G.3).
TOLERANCE = 1e-8
# Stored per point and check; the counts elsewhere are complete.
STORED = 100

Mark = Callable[..., np.ndarray]


class Violations:
    """Collects the violations of a job."""

    def __init__(self, rows: list[dict[str, Any]] | None = None) -> None:
        """Collect into ``rows``, rows of table ``violations``; None: start with none."""
        self.rows = [] if rows is None else rows
        self.count = 0

    def at(self, subject: Mapping[str, Any], params: np.ndarray, tokens: np.ndarray) -> Mark:
        """Return a function that compares values of one point with a bound.

        Args:
            subject: which point, for the record: sizes of the layer, run, step.
            params: its parameters; of a pair, one after the other.
            tokens: (sequences, length) the values belong to.

        Returns:
            (check, measured (m), bound, sequences (m) or None) -> (m) bool, True where a value is
            above the bound or not a number.
        """

        def mark(
            check: str, measured: Sequence[float], bound: float, sequences: Any = None
        ) -> np.ndarray:
            values = np.asarray(measured, float)
            over = ~(values <= bound * (1 + TOLERANCE))
            index = np.arange(len(values)) if sequences is None else np.asarray(sequences)
            for i in np.flatnonzero(over)[:STORED]:
                self.rows.append(
                    {
                        "check": check,
                        "subject": canonical_json({**subject, "sequence": int(index[i])}),
                        "measured": float(values[i]),
                        "bound": float(bound),
                        "parameters": params.tolist(),
                        "tokens": tokens[index[i]].tolist(),
                    }
                )
            self.count += int(over.sum())
            return over

        return mark
