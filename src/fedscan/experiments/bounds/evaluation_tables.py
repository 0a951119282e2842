"""Tables of bounds against measurements. Folders carry D and N.

Columns of what is compared come from ``comparisons``.
"""

from fedscan.experiments.bounds.comparisons import (
    bounds_of_points,
    compared,
    conditions,
    measured,
)
from fedscan.experiments.bounds.tables import REALISED, SEED
from fedscan.experiments.teachers.tables import MARGINS, RHO, SHAPE
from fedscan.io.tables import FLAG, FLOAT, FLOATS64, INT, TEXT, Column, Table
from fedscan.models.selective_ssm.layout import BLOCKS

POINT = (
    RHO,
    SEED,
    Column("checkpoint", TEXT, "-", "initialization, intermediate, final, or frozen_teacher"),
    Column("update", INT, "updates", "updates taken, null for the teacher", nullable=True),
)

POINTS = Table(
    "points",
    (
        *POINT,
        *MARGINS,
        *REALISED,
        *(Column(f"norm_{b}", FLOAT, "-", f"spectral norm of {b}") for b in BLOCKS),
        Column("k_delta", FLOAT, "-", "K_delta of Theorem 4.4"),
        Column("k_b", FLOAT, "-", "K_B of Theorem 4.4"),
        *bounds_of_points(every=True),
        Column("recurrent_share", FLOAT, "-", "share of G carried by the recurrent Jacobian"),
        *bounds_of_points(every=False),
        Column("overflow", TEXT, "-", "quantities that are infinite, comma-separated"),
        Column("sequences", INT, "sequences", "test sequences whose gradients were measured"),
        Column("gradient_median", FLOAT, "-", "median over sequences of the gradient's norm"),
        Column("gradient_mean", FLOAT, "-", "mean over sequences of the gradient's norm"),
        Column("gradient_max", FLOAT, "-", "largest norm of a sequence's gradient"),
        Column("batch_gradient", FLOAT, "-", "norm of the gradient of the mean loss"),
        *(
            Column(f"share_{b}", FLOAT, "-", f"median share of the squared norm carried by {b}")
            for b in BLOCKS
        ),
        *(comparison.flag for comparison in compared(every=True)),
        Column("batch_violations", INT, "-", "mean gradient above the mean norm, G or G_tight"),
    ),
    (f"evaluation/{SHAPE}/points",),
)

GRADIENTS = Table(
    "gradients",
    (
        *POINT,
        Column("sequence", INT, "-", "test sequence"),
        *(column for quantity in measured(every=True) for column in quantity.columns),
    ),
    (f"evaluation/{SHAPE}/gradients",),
)

CURVATURE = Table(
    "curvature",
    (
        *POINT,
        Column("sequence", INT, "-", "test sequence"),
        *(column for quantity in measured(every=False) for column in quantity.columns),
        *(condition.column for condition in conditions()),
        *(comparison.bound for comparison in compared(every=False) if comparison.beside),
        *(comparison.flag for comparison in compared(every=False)),
    ),
    (f"evaluation/{SHAPE}/curvature",),
)

TRAJECTORIES = Table(
    "trajectories",
    (
        RHO,
        SEED,
        Column("update", INT, "updates", "start of the pair"),
        Column("next_update", INT, "updates", "end of the pair"),
        Column("distance", FLOAT, "-", "||W_b - W_a||_F"),
        Column("gradient_ratio", FLOAT, "-", "largest change of a sequence's gradient / distance"),
        Column("L_distance", FLOAT, "-", "smoothness bound around W_a with this radius"),
        Column("bound_ratio", FLOAT, "-", "|G(W_b) - G(W_a)| / distance"),
        Column("L_G_distance", FLOAT, "-", "Lipschitz constant of G around W_a with this radius"),
        Column("violation_gradient", FLAG, "-", "gradient_ratio above its bound"),
        Column("violation_bound", FLAG, "-", "bound_ratio above its bound"),
    ),
    (f"evaluation/{SHAPE}/trajectories",),
)

PER_LAYER = (
    ("input_bounds", "certified input bound L_x"),
    ("input_maxima", "largest input norm over the sequences"),
    ("step_margins", "certified margin delta"),
    ("step_minima", "smallest step over the sequences"),
    ("rhos", "certified stability limit"),
    ("rhos_realised", "stability limit over the sequences"),
)

STACKS = Table(
    "stacks",
    (
        Column("depth", INT, "layers", "number of layers Q"),
        RHO,
        Column("origin", TEXT, "-", "'random' or 'trained'"),
        Column("scale", FLOAT, "-", "standard deviation of random weights", nullable=True),
        Column("point", INT, "-", "index of a random point; seed of a trained stack"),
        Column("update", INT, "updates", "updates taken, null for random points", nullable=True),
        Column("loss", FLOAT, "nats per token", "mean over the sequences"),
        Column("gradient_median", FLOAT, "-", "median over sequences, all layers' parameters"),
        Column("gradient_max", FLOAT, "-", "largest over sequences"),
        Column("hessian_max", FLOAT, "-", "largest spectral norm over sequences, from below"),
        Column("G", FLOAT, "-", "G^(Q) of Theorem C.3, certified constants"),
        Column("G_realised", FLOAT, "-", "the same, constants realised on the sequences; ours"),
        Column("G_common", FLOAT, "-", "closed form D.2 with the layers' largest constants"),
        Column("L", FLOAT, "-", "L^(Q) of Lemma C.4 at the point"),
        Column("L_realised", FLOAT, "-", "the same, realised constants; ours"),
        Column("L_common", FLOAT, "-", "closed form D.4 with the layers' largest constants"),
        *(Column(name, FLOATS64, "-", f"per layer, {text}") for name, text in PER_LAYER),
        Column("overflow", TEXT, "-", "quantities that are infinite, comma-separated"),
        Column("checks", INT, "-", "inequalities checked"),
        Column("violations", INT, "-", "inequalities violated"),
    ),
    ("stacks/stacks",),
)
