"""What is measured at a point and what it is compared with: a record per inequality.

From the records come the columns of the tables, the bounds' values, the checks of stage
``evaluation`` and the rows of Table 1. No torch and no pandas: the tables are made of them.
``measures`` has a function per measured quantity.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedscan.io.tables import FLAG, FLOAT, INT, Column
from fedscan.models.selective_ssm.layout import BLOCKS
from fedscan.theory.constants import Constants, Floats
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.smoothness import smoothness_bound


class Known(NamedTuple):
    """What bounds at points are made of; arrays over points.

    Attributes:
        point: constants at the point, configured margins.
        tight: the realised constants of the point.
        ball: envelopes on the ball of the finite-difference step, configured margins.
        own_ball: the same with the margins that hold on that ball.
        inside: that ball lies in the stability set.
    """

    point: Constants
    tight: Constants
    ball: Constants
    own_ball: Constants
    inside: NDArray[np.bool_]


class Measured(NamedTuple):
    """A quantity measured per sequence.

    Attributes:
        name: its column; ``measures.MEASURES`` has its function under this name.
        every: measured at every test sequence (table ``gradients``), or at those whose Hessians
            are measured (table ``curvature``).
        columns: its own, and others that the function finds on the way.
    """

    name: str
    every: bool
    columns: tuple[Column, ...]


class Condition(NamedTuple):
    """Where a bound holds.

    Attributes:
        column: of table ``curvature``.
        holds: of which points.
        outside: what Table 1 says of sequences elsewhere.
    """

    column: Column
    holds: Callable[[Known], NDArray[np.bool_]]
    outside: str


class Comparison(NamedTuple):
    """A measured quantity that must not exceed a bound of its point.

    Attributes:
        measured: the quantity.
        bound: its column, in table ``points``.
        value: the bound.
        flag: what counts violations: sequences, in table ``points``, if every one is measured; one
            flag per sequence, in table ``curvature``, if not.
        row: of Table 1.
        note: in Table 1.
        ours: the paper has no such row.
        condition: where the bound holds; None: everywhere.
        beside: the bound's column is in table ``curvature`` instead.
    """

    measured: Measured
    bound: Column
    value: Callable[[Known], Floats]
    flag: Column
    row: str
    note: str = ""
    ours: bool = False
    condition: Condition | None = None
    beside: bool = False


GRADIENT = Measured(
    "gradient_norm",
    every=True,
    columns=(
        Column("loss", FLOAT, "nats per token", "of the sequence"),
        *(Column(f"gradient_{b}", FLOAT, "-", f"norm of the gradient in {b}") for b in BLOCKS),
        Column("gradient_norm", FLOAT, "-", "norm over all blocks"),
    ),
)

HESSIAN = Measured(
    "hessian_norm",
    every=False,
    columns=(
        Column("hessian_norm", FLOAT, "-", "spectral norm of the Hessian, from below"),
        Column("iterations", INT, "-", "power iterations"),
        Column("converged", FLAG, "-", "stopped by the Rayleigh quotient"),
    ),
)

DIFFERENCE = Measured(
    "difference_ratio",
    every=False,
    columns=(
        Column("difference_ratio", FLOAT, "-", "largest ||dL(W+hU) - dL(W)||/h of 3 directions U"),
    ),
)

INSIDE = Condition(
    Column("applicable", FLAG, "-", "the ball of radius h lies in the stability set"),
    lambda known: known.inside,
    "balls that leave the stability set; the configured bound says nothing there",
)

COMPARISONS = (
    Comparison(
        GRADIENT,
        Column("G", FLOAT, "-", "gradient bound G_SSM, configured constants"),
        lambda known: gradient_bound(known.point).bound,
        Column("violations", INT, "sequences", "gradients above G (1 + 1e-8)"),
        "gradient_norm<=G_SSM",
    ),
    Comparison(
        GRADIENT,
        Column("G_tight", FLOAT, "-", "gradient bound with realised constants"),
        lambda known: gradient_bound(known.tight).bound,
        Column("violations_tight", INT, "sequences", "gradients above G_tight (1 + 1e-8)"),
        "gradient_norm<=G_SSM_tight",
    ),
    Comparison(
        HESSIAN,
        Column("L", FLOAT, "-", "smoothness bound L_SSM at the point, configured constants"),
        lambda known: smoothness_bound(known.point).bound,
        Column("violation_hessian", FLAG, "-", "hessian_norm above L"),
        "hessian_opnorm<=L_SSM_0",
    ),
    Comparison(
        HESSIAN,
        Column("L_tight", FLOAT, "-", "smoothness bound with realised constants; ours"),
        lambda known: smoothness_bound(known.tight).bound,
        Column("violation_tight", FLAG, "-", "hessian_norm above L_tight"),
        "ours: hessian_opnorm<=L_SSM_tight",
        "ours, not in the paper",
        ours=True,
    ),
    Comparison(
        DIFFERENCE,
        Column("L_step", FLOAT, "-", "smoothness bound on the ball of the finite-difference step"),
        lambda known: smoothness_bound(known.ball).bound,
        Column("violation_difference", FLAG, "-", "ratio above L_step where applicable"),
        "finite_difference<=L_SSM_0.001",
        "balls inside the stability set",
        condition=INSIDE,
    ),
    Comparison(
        DIFFERENCE,
        Column("own_bound", FLOAT, "-", "smoothness bound on the ball with the ball's own margins"),
        lambda known: smoothness_bound(known.own_ball).bound,
        Column("violation_own", FLAG, "-", "ratio above own_bound"),
        "ours: finite_difference<=L with the ball's margins",
        "ours; covers balls outside the configured set too",
        ours=True,
        beside=True,
    ),
)


def compared(every: bool) -> list[Comparison]:
    """Return the comparisons at every test sequence, or at those with Hessians.

    Args:
        every: which of the two.
    """
    return [comparison for comparison in COMPARISONS if comparison.measured.every == every]


def measured(every: bool) -> list[Measured]:
    """Return what is measured at every test sequence, or at those with Hessians.

    Args:
        every: which of the two.
    """
    return list(dict.fromkeys(comparison.measured for comparison in compared(every)))


def conditions() -> list[Condition]:
    """Return the conditions of all comparisons, each once."""
    return list(dict.fromkeys(c.condition for c in COMPARISONS if c.condition is not None))


def bounds_of_points(every: bool) -> list[Column]:
    """Return the bounds' columns in table ``points``.

    Args:
        every: those of comparisons at every test sequence, or of the others.
    """
    return [comparison.bound for comparison in compared(every) if not comparison.beside]
