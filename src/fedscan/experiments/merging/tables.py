"""Tables of tasks, bases and specialists. Folders carry base, task and seed."""

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, TOKENS16, Column, Table
from fedscan.pipeline.tables import HASHES, STATUS

MU = Column("mu", FLOAT, "-", "proximal coefficient of the fine-tuning")

EPOCH = Column("epoch", INT, "epochs", "epochs the specialists were fine-tuned for")

TASK_EXAMPLES = Table(
    "task_examples",
    (
        Column("example", INT, "-", "index in the shuffled order"),
        Column("source_row", INT, "-", "index in the split it was chosen from"),
        Column("label", INT, "-", "index of the right label"),
        Column("truncated", FLAG, "-", "whether text was cut to fit"),
        Column("prompt", TOKENS16, "token ids", "template and text, without the label"),
    ),
    ("merging/tasks/task=*/subset=*/examples",),
)

TASK_LABELS = Table(
    "task_labels",
    (
        Column("label", INT, "-", "index of the label"),
        Column("word", TEXT, "-", "word that is scored"),
        Column("name", TEXT, "-", "name in the dataset"),
        Column("ids", TOKENS16, "token ids", "a space and the word"),
    ),
    ("merging/tasks/task=*/subset=*/labels",),
)

MERGING_BASE = Table(
    "merging_base",
    (
        Column("source", TEXT, "-", "'federated', or the checkpoint's name"),
        Column("selected", TEXT, "-", "job and value of the run whose model it is; '' if none"),
        Column("val_ppl_last10", FLOAT, "per token", "what the run was selected by", nullable=True),
        Column("parameters", INT, "-", "parameters, tied ones once"),
        Column("precision", TEXT, "-", "dtype the model is stored in"),
        Column("tokenizer", TEXT, "-", "tokenizer of prompts and labels"),
        Column("vocab_size", INT, "tokens", "rows of the embedding"),
        Column("sha256", TEXT, "-", "digest of the model file"),
    ),
    ("merging/bases/base=*/base",),
)

SPECIALISTS = Table(
    "specialists",
    (
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
    ),
    ("merging/specialists/base=*/task=*/seed=*/specialists",),
)
