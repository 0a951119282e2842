"""Tables of evaluations and merges. Folders carry base and seed."""

from fedscan.experiments.merging.tables import EPOCH, MU
from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column, Table
from fedscan.pipeline.tables import HASHES, STATUS

MODEL = Column("model", TEXT, "-", "which model, in canonical spelling")

ACCURACY = (
    Column("evaluated_on", TEXT, "-", "task of the examples"),
    *STATUS,
    Column("examples", INT, "-", "examples scored"),
    Column("correct", INT, "-", "examples whose right label scored highest"),
    Column("accuracy", FLOAT, "%", "100 correct / examples", nullable=True),
    Column("ties", INT, "-", "examples whose highest score several labels share; the first wins"),
    Column("chance", FLOAT, "%", "100 / number of labels"),
)

SPECIALIST_ACCURACY = Table(
    "specialist_accuracy",
    (
        MODEL,
        Column("kind", TEXT, "-", "'zero_shot' (the base) or 'specialist'"),
        Column("seed", INT, "-", "root seed of the fine-tuning", nullable=True),
        Column("trained_on", TEXT, "-", "task of the fine-tuning", nullable=True),
        Column("mu", FLOAT, "-", "proximal coefficient of the fine-tuning", nullable=True),
        Column("epoch", INT, "epochs", "epochs of fine-tuning", nullable=True),
        *ACCURACY,
        *HASHES,
    ),
    ("merging/accuracy/base=*/specialist_accuracy",),
)

MERGE_KEYS = (
    MODEL,
    MU,
    EPOCH,
    Column("operator", TEXT, "-", "'average', 'task_arithmetic' or 'ties'"),
    Column("scale", FLOAT, "-", "lambda; 1 for the average"),
    Column("density", FLOAT, "-", "share of entries TIES keeps", nullable=True),
)

MERGES = Table(
    "merges",
    (*MERGE_KEYS, *ACCURACY, *HASHES),
    ("merging/merges/base=*/seed=*/merges",),
)

DISPLACEMENTS = Table(
    "displacements",
    (
        *MERGE_KEYS,
        *STATUS,
        Column("displacement", FLOAT, "-", "||theta_merge - theta_0||", nullable=True),
        Column("radius", FLOAT, "-", "R = max_m ||T_m||: the ball that holds all specialists"),
        Column("mean_norm", FLOAT, "-", "sum_m p_m ||T_m||, an average's displacement at most"),
        Column("contained", FLAG, "-", "whether displacement <= R", nullable=True),
        Column(
            "first_order",
            FLOAT,
            "nats per label token",
            "<grad f(theta_0), d>; d is the way moved",
            nullable=True,
        ),
        Column("alignment", FLOAT, "-", "cosine of d and -grad f(theta_0)", nullable=True),
        Column("base_loss", FLOAT, "nats per label token", "f(theta_0) on the held-out batch"),
        Column("loss", FLOAT, "nats per label token", "f(theta_merge) on it", nullable=True),
        Column(
            "curvature",
            FLOAT,
            "-",
            "2 (f(theta_merge) - f(theta_0) - first_order) / ||d||^2",
            nullable=True,
        ),
        *HASHES,
    ),
    ("merging/merges/base=*/seed=*/displacements",),
)

TASK_VECTORS = Table(
    "task_vectors",
    (
        MODEL,
        MU,
        EPOCH,
        Column("task", TEXT, "-", "task of the specialist"),
        *STATUS,
        Column("norm", FLOAT, "-", "||T_m||"),
        Column("mean_cosine", FLOAT, "-", "mean cosine to the other task vectors", nullable=True),
        Column("first_order", FLOAT, "nats per label token", "<grad f(theta_0), T_m>"),
        Column("alignment", FLOAT, "-", "cosine of T_m and -grad f(theta_0)"),
        Column("sum_ratio", FLOAT, "-", "||sum_m T_m||^2 / sum_m ||T_m||^2 of this mu and epoch"),
        *HASHES,
    ),
    ("merging/merges/base=*/seed=*/task_vectors",),
)

_KEYS = (
    Column("base", TEXT, "-", "name of the base model in the configuration"),
    Column("seed", INT, "-", "root seed of training subset and fine-tuning"),
)

ALL_SPECIALIST_ACCURACY = Table(
    "all_specialist_accuracy",
    (_KEYS[0], *SPECIALIST_ACCURACY.columns),
    ("merging/tables/all_specialist_accuracy",),
)

ALL_MERGES = Table(
    "all_merges",
    (*_KEYS, *MERGES.columns),
    ("merging/tables/all_merges",),
)

ALL_DISPLACEMENTS = Table(
    "all_displacements",
    (*_KEYS, *DISPLACEMENTS.columns),
    ("merging/tables/all_displacements",),
)

ALL_TASK_VECTORS = Table(
    "all_task_vectors",
    (*_KEYS, *TASK_VECTORS.columns),
    ("merging/tables/all_task_vectors",),
)
