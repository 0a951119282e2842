"""Tables of one model's iteration over depth. Its folder carries the name of the model."""

from fedscan.io.tables import FLAG, FLOAT, FLOATS64, INT, TEXT, Column, Table
from fedscan.pipeline.tables import HASHES

MODEL_FOLDER = "consensus/models/model=*"

VARIANT = Column("variant", TEXT, "-", "how layers are iterated, a name of consensus.variants")
LAYER = Column("layer", INT, "-", "the layer that is repeated; -1 where all are visited")
DRAW = Column("draw", INT, "-", "draw of the initial tokens, from 0")
STATUS = Column("status", TEXT, "-", "'completed' or 'failed'")
FAILURE = Column("failure", TEXT, "-", "which token had no direction, at what depth", nullable=True)
QUANTITY = Column(
    "quantity", TEXT, "-", "'q_token' (as printed, no convolution) or 'q_layer' (as it enters)"
)
MODEL = Table(
    "consensus_model",
    (
        Column("source", TEXT, "-", "'federated', 'random', or the checkpoint's folder or hub id"),
        Column("selected", TEXT, "-", "of a federated model: job and value"),
        Column("val_ppl_last10", FLOAT, "per token", "of a federated model", nullable=True),
        Column("paper", FLAG, "-", "whether published values are shown beside it"),
        Column("d_model", INT, "channels", "n"),
        Column("layers", INT, "layers", "L"),
        Column("d_state", INT, "-", "state size m per head"),
        Column("heads", INT, "heads", "heads per layer"),
        Column("headdim", INT, "channels", "channels P per head"),
        Column("parameters", INT, "-", "parameters, tied weights once"),
        Column("vocabulary", INT, "tokens", "ids are drawn below it"),
        Column("tokens", INT, "tokens", "l, tokens per draw"),
        Column("draws", INT, "draws", "independent draws of tokens"),
        Column("depth", INT, "layers", "kappa, layers applied"),
        Column("precision", TEXT, "-", "of the iteration"),
        Column("sha256", TEXT, "-", "digest of the model's values"),
    ),
    (f"{MODEL_FOLDER}/consensus_model",),
)

CURVES = Table(
    "consensus_curves",
    (
        VARIANT,
        LAYER,
        DRAW,
        Column("depth", INT, "layers", "layers applied, from 0: the initial tokens"),
        STATUS,
        FAILURE,
        Column("lambda1", FLOAT, "-", "largest eigenvalue of the Gram matrix / l", nullable=True),
        Column("participation", FLOAT, "-", "1 / sum of squared scaled eigenvalues", nullable=True),
        Column("mean_cosine", FLOAT, "-", "mean cosine of two different tokens", nullable=True),
        Column("norm", FLOAT, "-", "mean norm of a token", nullable=True),
        Column("step", FLOAT, "-", "mean of |tau F| / |x|; null at depth 0", nullable=True),
        Column("q_token_first", FLOAT, "-", "q_token of the first token", nullable=True),
        Column("q_layer_first", FLOAT, "-", "q_layer of the first token", nullable=True),
        Column("q_token_mean", FLOAT, "-", "q_token, mean over tokens", nullable=True),
        Column("q_layer_mean", FLOAT, "-", "q_layer, mean over tokens", nullable=True),
        Column("top_head", INT, "-", "head with the largest mean step size", nullable=True),
        *HASHES,
    ),
    (f"{MODEL_FOLDER}/consensus_curves",),
)

WINDOWS = Table(
    "consensus_windows",
    (
        VARIANT,
        LAYER,
        QUANTITY,
        DRAW,
        Column("token", INT, "-", "position of the token, from 0"),
        STATUS,
        FAILURE,
        Column("t_star", INT, "layers", "shortest window of positive mean; null: none", True),
        Column("mean", FLOAT, "-", "mean over the run", nullable=True),
        Column("minimum", FLOAT, "-", "smallest value", nullable=True),
        Column("negative_share", FLOAT, "-", "share of depths where it is negative", nullable=True),
        Column("margin", FLOAT, "-", "positive sum / negative sum; null: none negative", True),
        *HASHES,
    ),
    (f"{MODEL_FOLDER}/consensus_windows",),
)

MINIMA = Table(
    "consensus_minima",
    (
        VARIANT,
        LAYER,
        QUANTITY,
        DRAW,
        STATUS,
        FAILURE,
        Column("first_token", FLOATS64, "-", "w(T) of the first token, T = 1, 2, ...", True),
        Column("worst", FLOATS64, "-", "smallest w(T) over tokens, T = 1, 2, ...", True),
        *HASHES,
    ),
    (f"{MODEL_FOLDER}/consensus_minima",),
)

LAYERS = Table(
    "consensus_layers",
    (
        Column("layer", INT, "-", "layer, from 0"),
        Column("trace", FLOAT, "-", "of S_BC = S_C^T S_B, S_B = W_B diag(norm.weight)"),
        Column("smallest", FLOAT, "-", "smallest eigenvalue of sym(S_BC)"),
        Column("largest", FLOAT, "-", "largest eigenvalue of sym(S_BC)"),
        Column("positive_share", FLOAT, "-", "share of the n eigenvalues above rounding"),
        Column("top_head", INT, "-", "head with the largest mean step size, model's own depth"),
        Column("head_gap", FLOAT, "-", "largest mean step size / second largest", nullable=True),
        Column("undefined", TEXT, "-", "why c_star and gamma have no value", nullable=True),
    ),
    (f"{MODEL_FOLDER}/consensus_layers",),
)

# Written in the reverse of this order: where the curves are, the others are.
MODEL_TABLES = (CURVES, WINDOWS, MINIMA)
UNIT = ("variant", "layer", "draw")
