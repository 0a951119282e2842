"""Tables of a training job. Its folder carries the axes."""

from collections.abc import Mapping
from typing import Any

from fedscan.io.tables import FLOAT, INT, TEXT, Column, Table

JOB_FOLDER = "federated/backbone=*/clients=*/setting=*/depth=*/E=*/beta=*/algorithm=*/seed=*"

VALUE = Column("value", TEXT, "-", "hyperparameters in canonical spelling, '-' when there are none")

DATA_SOURCE = Column("data_source", TEXT, "-", "where the text comes from; 'synthetic' is made up")

TOKENIZER = Column("tokenizer", TEXT, "-", "perplexities are per token of this tokenizer")

RUNS = Table(
    "runs",
    (
        VALUE,
        Column("hyperparameters", TEXT, "JSON", "hyperparameters by name"),
        Column("status", TEXT, "-", "'completed' or 'failed'"),
        Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
        Column("failed_round", INT, "-", "round of the failure", nullable=True),
        Column(
            "failed_client", INT, "-", "client of the failure, null at the server", nullable=True
        ),
        Column("rounds", INT, "rounds", "rounds recorded"),
        Column(
            "train_ppl", FLOAT, "per token", "client training perplexity, mean over rounds, clients"
        ),
        Column("val_ppl", FLOAT, "per token", "server validation perplexity, mean over rounds"),
        Column(
            "val_ppl_last10", FLOAT, "per token", "the same over the last 10 rounds (all, if fewer)"
        ),
        Column("parameters", INT, "-", "trainable parameters of the model"),
        Column("kernels", TEXT, "-", "'torch' or 'mamba_ssm'"),
        Column("device", TEXT, "-", "device that ran the job"),
        Column("step", TEXT, "-", "'eager' or 'cuda_graph'"),
        Column("precision", TEXT, "-", "precision of forward and backward passes"),
        Column("threads", INT, "threads", "CPU threads of the matrix products"),
        DATA_SOURCE,
        TOKENIZER,
        Column("data_sha256", TEXT, "-", "digest of the token bytes trained on"),
        Column("config_hash", TEXT, "-", "hash of every config value the run depends on"),
        Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
    ),
    (f"{JOB_FOLDER}/runs",),
)

# Columns of ``runs`` that say what a run was made of; its kept models carry them too.
IDENTITY = ("config_hash", "data_sha256", "code_hash")

ROUNDS = Table(
    "rounds",
    (
        VALUE,
        Column("round", INT, "-", "communication round from 1"),
        Column(
            "train_ppl", FLOAT, "per token", "mean over clients of exp(mean local cross-entropy)"
        ),
        Column("val_loss", FLOAT, "nats per token", "server validation cross-entropy"),
        Column("val_ppl", FLOAT, "per token", "exp(val_loss), +inf on overflow"),
        Column("client_drift_mean", FLOAT, "-", "mean over clients of ||local - global||"),
        Column("client_drift_max", FLOAT, "-", "largest ||local - global||"),
        Column("mean_update_norm", FLOAT, "-", "norm of the weighted mean update"),
        Column("server_displacement", FLOAT, "-", "norm of the change of the global parameters"),
        Column("update_dispersion", FLOAT, "-", "weighted mean of ||update - mean update||^2"),
        Column("cosine_to_mean", FLOAT, "-", "mean over clients of cos(update, mean update)"),
        Column("internals", TEXT, "JSON", "quantities of the algorithm, by name"),
    ),
    (f"{JOB_FOLDER}/rounds",),
)

CLIENTS = Table(
    "clients",
    (
        VALUE,
        Column("round", INT, "-", "communication round from 1"),
        Column("client", INT, "-", "client index from 0"),
        Column("train_loss", FLOAT, "nats per token", "mean cross-entropy over the local steps"),
        Column("train_ppl", FLOAT, "per token", "exp(train_loss), +inf on overflow"),
        Column("gradient_norm", FLOAT, "-", "mean norm of the step direction before clipping"),
        Column("clipped_steps", INT, "steps", "local steps whose direction was clipped"),
        Column("skipped_steps", INT, "steps", "steps skipped by dynamic loss scaling (float16)"),
        Column("client_drift", FLOAT, "-", "||local - global||"),
        Column("cosine_to_mean", FLOAT, "-", "cos(update, mean update)"),
    ),
    (f"{JOB_FOLDER}/clients",),
)

# What a mixer's in_proj makes of its input, in the order of its rows.
IN_PROJ_BLOCKS = ("z", "x", "B", "C", "dt")

MIXERS = Table(
    "mixers",
    (
        VALUE,
        Column("round", INT, "-", "communication round from 1"),
        Column("layer", INT, "-", "layer of the Mamba2 mixer, from 0"),
        *(
            Column(
                f"spectral_norm_{block}", FLOAT, "-", f"largest singular value of in_proj's {block}"
            )
            for block in IN_PROJ_BLOCKS
        ),
    ),
    (f"{JOB_FOLDER}/mixers",),
)

HEADS = Table(
    "heads",
    (
        VALUE,
        Column("round", INT, "-", "communication round from 1"),
        Column("layer", INT, "-", "layer of the Mamba2 mixer, from 0"),
        Column("head", INT, "-", "head of the mixer, from 0"),
        *(
            Column(f"decay_{name}", FLOAT, "-", f"{name} of exp(A dt) over a fixed probe batch")
            for name in ("min", "median", "max")
        ),
    ),
    (f"{JOB_FOLDER}/heads",),
)

# Written in the reverse of this order: where ``runs`` is, the others are.
JOB_TABLES = (RUNS, ROUNDS, CLIENTS, MIXERS, HEADS)


def last_round(row: Mapping[str, Any]) -> int:
    """Return the last round after which a run had a model.

    Args:
        row: of table ``runs``.

    Returns:
        0 is the initial model. The round of a failure left none, though it may be recorded: a
        perplexity that overflows is measured first.
    """
    return int(row["failed_round"]) - 1 if row["status"] == "failed" else int(row["rounds"])
