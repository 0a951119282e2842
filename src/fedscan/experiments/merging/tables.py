"""Tables of one-shot merging. Folders carry base, task and seed."""

import pyarrow as pa

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column

IDS = pa.list_(pa.uint16())
MODEL = Column("model", TEXT, "-", "which model, in canonical spelling")
MU = Column("mu", FLOAT, "-", "proximal coefficient of the fine-tuning")
EPOCH = Column("epoch", INT, "epochs", "epochs the specialists were fine-tuned for")
HASHES = (
    Column("config_hash", TEXT, "-", "hash of every value and file the row depends on"),
    Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
)
STATUS = (
    Column("status", TEXT, "-", "'completed' or 'failed'"),
    Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
)

TASK_EXAMPLES = (
    Column("example", INT, "-", "index in the shuffled order"),
    Column("source_row", INT, "-", "index in the split it was chosen from"),
    Column("label", INT, "-", "index of the right label"),
    Column("truncated", FLAG, "-", "whether text was cut to fit"),
    Column("prompt", IDS, "token ids", "template and text, without the label"),
)
TASK_LABELS = (
    Column("label", INT, "-", "index of the label"),
    Column("word", TEXT, "-", "word that is scored"),
    Column("name", TEXT, "-", "name in the dataset"),
    Column("ids", IDS, "token ids", "a space and the word"),
)
MERGING_BASE = (
    Column("source", TEXT, "-", "'federated', or the checkpoint's name"),
    Column("selected", TEXT, "-", "job and value of the run whose model it is; '' if none"),
    Column("val_ppl_last10", FLOAT, "per token", "what the run was selected by", nullable=True),
    Column("parameters", INT, "-", "parameters, tied ones once"),
    Column("precision", TEXT, "-", "dtype the model is stored in"),
    Column("tokenizer", TEXT, "-", "tokenizer of prompts and labels"),
    Column("vocab_size", INT, "tokens", "rows of the embedding"),
    Column("sha256", TEXT, "-", "digest of the model file"),
)
SPECIALISTS = (
    MU,
    EPOCH,
    *STATUS,
    Column("failed_step", INT, "steps", "step of the failure", nullable=True),
    Column("examples", INT, "-", "training examples"),
    Column("steps", INT, "steps", "optimiser steps taken"),
    Column("train_loss", FLOAT, "nats per label token", "mean over the epoch's steps"),
    Column("gradient_norm", FLOAT, "-", "mean norm before clipping over the epoch's steps"),
    Column("clipped_steps", INT, "steps", "steps of the epoch that were clipped"),
    Column("displacement", FLOAT, "-", "||theta - theta_0|| over all parameters"),
    Column("model_file", TEXT, "-", "the model, below the table's folder", nullable=True),
    Column("model_sha256", TEXT, "-", "digest of the model file", nullable=True),
    *HASHES,
)
ACCURACY = (
    Column("evaluated_on", TEXT, "-", "task of the examples"),
    *STATUS,
    Column("examples", INT, "-", "examples scored"),
    Column("correct", INT, "-", "examples whose right label scored highest"),
    Column("accuracy", FLOAT, "%", "100 correct / examples", nullable=True),
    Column("ties", INT, "-", "examples whose highest score several labels share; the first wins"),
    Column("chance", FLOAT, "%", "100 / number of labels"),
)
SPECIALIST_ACCURACY = (
    MODEL,
    Column("kind", TEXT, "-", "'zero_shot' (the base) or 'specialist'"),
    Column("seed", INT, "-", "root seed of the fine-tuning", nullable=True),
    Column("trained_on", TEXT, "-", "task of the fine-tuning", nullable=True),
    Column("mu", FLOAT, "-", "proximal coefficient of the fine-tuning", nullable=True),
    Column("epoch", INT, "epochs", "epochs of fine-tuning", nullable=True),
    *ACCURACY,
    *HASHES,
)
MERGE_KEYS = (
    MODEL,
    MU,
    EPOCH,
    Column("operator", TEXT, "-", "'average', 'task_arithmetic' or 'ties'"),
    Column("scale", FLOAT, "-", "lambda; 1 for the average"),
    Column("density", FLOAT, "-", "share of entries TIES keeps", nullable=True),
)
MERGES = (*MERGE_KEYS, *ACCURACY, *HASHES)
DISPLACEMENTS = (
    *MERGE_KEYS,
    *STATUS,
    Column("displacement", FLOAT, "-", "||theta_merge - theta_0||", nullable=True),
    Column("radius", FLOAT, "-", "R = max_m ||T_m||: the ball that holds all specialists"),
    Column("mean_norm", FLOAT, "-", "sum_m p_m ||T_m||, an average's displacement at most"),
    Column("contained", FLAG, "-", "whether displacement <= R", nullable=True),
    Column(
        "first_order", FLOAT, "nats per label token", "<grad f(theta_0), d>; d is the way moved",
        nullable=True,
    ),
    Column("alignment", FLOAT, "-", "cosine of d and -grad f(theta_0)", nullable=True),
    Column("base_loss", FLOAT, "nats per label token", "f(theta_0) on the held-out batch"),
    Column("loss", FLOAT, "nats per label token", "f(theta_merge) on it", nullable=True),
    Column(
        "curvature", FLOAT, "-", "2 (f(theta_merge) - f(theta_0) - first_order) / ||d||^2",
        nullable=True,
    ),
    *HASHES,
)  # fmt: skip
TASK_VECTORS = (
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
)
_KEYS = (
    Column("base", TEXT, "-", "name of the base model in the configuration"),
    Column("seed", INT, "-", "root seed of training subset and fine-tuning"),
)

MERGING_TABLES: dict[str, tuple[Column, ...]] = {
    "task_examples": TASK_EXAMPLES,
    "task_labels": TASK_LABELS,
    "merging_base": MERGING_BASE,
    "specialists": SPECIALISTS,
    "specialist_accuracy": SPECIALIST_ACCURACY,
    "merges": MERGES,
    "displacements": DISPLACEMENTS,
    "task_vectors": TASK_VECTORS,
    "all_specialist_accuracy": (_KEYS[0], *SPECIALIST_ACCURACY),
    "all_merges": (*_KEYS, *MERGES),
    "all_displacements": (*_KEYS, *DISPLACEMENTS),
    "all_task_vectors": (*_KEYS, *TASK_VECTORS),
}
