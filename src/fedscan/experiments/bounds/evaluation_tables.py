"""Tables of bounds against measurements. Folders carry D and N."""

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
        Column("G", FLOAT, "-", "gradient bound G_SSM, configured constants"),
        Column("G_tight", FLOAT, "-", "gradient bound with realised constants"),
        Column("recurrent_share", FLOAT, "-", "share of G carried by the recurrent Jacobian"),
        Column("L", FLOAT, "-", "smoothness bound L_SSM at the point, configured constants"),
        Column("L_tight", FLOAT, "-", "smoothness bound with realised constants; ours"),
        Column("L_step", FLOAT, "-", "smoothness bound on the ball of the finite-difference step"),
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
        Column("violations", INT, "sequences", "gradients above G (1 + 1e-8)"),
        Column("violations_tight", INT, "sequences", "gradients above G_tight (1 + 1e-8)"),
        Column("batch_violations", INT, "-", "mean gradient above the mean norm, G or G_tight"),
    ),
    (f"evaluation/{SHAPE}/points",),
)

GRADIENTS = Table(
    "gradients",
    (
        *POINT,
        Column("sequence", INT, "-", "test sequence"),
        Column("loss", FLOAT, "nats per token", "of the sequence"),
        *(Column(f"gradient_{b}", FLOAT, "-", f"norm of the gradient in {b}") for b in BLOCKS),
        Column("gradient_norm", FLOAT, "-", "norm over all blocks"),
    ),
    (f"evaluation/{SHAPE}/gradients",),
)

CURVATURE = Table(
    "curvature",
    (
        *POINT,
        Column("sequence", INT, "-", "test sequence"),
        Column("hessian_norm", FLOAT, "-", "spectral norm of the Hessian, from below"),
        Column("iterations", INT, "-", "power iterations"),
        Column("converged", FLAG, "-", "stopped by the Rayleigh quotient"),
        Column("difference_ratio", FLOAT, "-", "largest ||dL(W+hU) - dL(W)||/h of 3 directions U"),
        Column("applicable", FLAG, "-", "the ball of radius h lies in the stability set"),
        Column("own_bound", FLOAT, "-", "smoothness bound on the ball with the ball's own margins"),
        Column("violation_hessian", FLAG, "-", "hessian_norm above L"),
        Column("violation_tight", FLAG, "-", "hessian_norm above L_tight"),
        Column("violation_difference", FLAG, "-", "ratio above L_step where applicable"),
        Column("violation_own", FLAG, "-", "ratio above own_bound"),
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
