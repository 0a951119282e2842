"""Tables of Sessa's comparison. Folders carry task and mixer."""

import pyarrow as pa

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, TOKENS16, Column, Table
from fedscan.pipeline.tables import HASHES, STATUS

PLACES = pa.list_(pa.int32())

UNIT = (
    Column("width", INT, "channels", "width of sessa; the model's own is d_model"),
    Column("seed", INT, "-", "root seed of initial model and batches"),
    Column("lr", FLOAT, "-", "peak learning rate"),
)
SPLIT = (
    Column("split", TEXT, "-", "'train', 'validation' or 'test'"),
    Column("factor", INT, "-", "how many times longer than in training"),
)

EXAMPLES = Table(
    "sessa_examples",
    (
        *SPLIT,
        Column("index", INT, "-", "index in its split"),
        Column("length", INT, "tokens", "tokens of the sequence"),
        Column("label", INT, "-", "class", nullable=True),
        Column("order", TEXT, "-", "which family's block comes first", nullable=True),
        Column("shortest_block", INT, "letters", "of the two blocks", nullable=True),
        Column("pairs", INT, "-", "stored pairs, where a task mixes several", nullable=True),
        Column("source", TEXT, "-", "what clients are told apart by"),
        Column("ceiling_correct", FLAG, "-", "whether the best rule is right", nullable=True),
        Column("lag_min", INT, "tokens", "smallest lag of its answers", nullable=True),
        Column("lag_max", INT, "tokens", "largest lag of its answers", nullable=True),
        Column("text_bytes", INT, "bytes", "text of the answers, UTF-8", nullable=True),
        Column("tokens", TOKENS16, "token ids", "the sequence"),
        Column("places", PLACES, "positions", "positions that predict an answer"),
        Column("answers", TOKENS16, "token ids", "what is to be predicted there"),
        Column("lags", PLACES, "tokens", "from each answer to where it was stored; or empty"),
    ),
    ("sessa/data/task=*/sessa_examples",),
)

SIZES = (
    Column("d_model", INT, "channels", "width of the model"),
    Column("d_state", INT, "-", "state size of Mamba2 mixers"),
    Column("parameters", INT, "-", "trainable parameters, tied ones once"),
)

RUNS = Table(
    "sessa_runs",
    (
        *UNIT,
        *STATUS,
        Column("failed_step", INT, "steps", "step of the failure", nullable=True),
        *SIZES,
        Column("steps", INT, "steps", "optimiser steps taken"),
        Column("train_loss", FLOAT, "nats per answer", "mean over the last quarter of the steps"),
        Column("validation_loss", FLOAT, "nats per answer", "of the last model"),
        Column("validation_accuracy", FLOAT, "-", "share of right answers, last model"),
        Column("chance_loss", FLOAT, "nats per answer", "of a uniform guess", nullable=True),
        Column(
            "steps_to_beat_chance",
            INT,
            "steps",
            "first step whose last 20 losses have a mean below it",
            nullable=True,
        ),
        Column("model_file", TEXT, "-", "the model, below the table's folder", nullable=True),
        Column("model_sha256", TEXT, "-", "digest of the model file", nullable=True),
        *HASHES,
    ),
    ("sessa/training/task=*/mixer=*/sessa_runs",),
)

CURVES = Table(
    "sessa_curves",
    (
        *UNIT,
        Column("step", INT, "-", "optimiser step from 1"),
        Column("loss", FLOAT, "nats per answer", "of the step's batch"),
        Column("step_lr", FLOAT, "-", "learning rate of the step"),
        Column("gradient_norm", FLOAT, "-", "before clipping"),
        Column("validation_loss", FLOAT, "nats per answer", "after the step", nullable=True),
        Column("validation_accuracy", FLOAT, "-", "after the step", nullable=True),
    ),
    ("sessa/training/task=*/mixer=*/sessa_curves",),
)

ACCURACY = Table(
    "sessa_accuracy",
    (
        *UNIT,
        *SPLIT,
        Column("group", TEXT, "-", "'all', 'class', 'lag', 'order', 'shortest_block', ..."),
        Column("value", TEXT, "-", "which class, lag bucket, ...; '' for all"),
        Column("sequences", INT, "-", "sequences with an answer in the group"),
        Column("answers", INT, "-", "answers"),
        Column("accuracy", FLOAT, "-", "share of right answers"),
        Column("top5", FLOAT, "-", "share of answers among the five most probable"),
        Column("loss", FLOAT, "nats per answer", "mean cross-entropy"),
        Column("bits_per_byte", FLOAT, "bits", "of text, whatever the tokenizer", nullable=True),
        Column("ceiling", FLOAT, "-", "accuracy of the best rule on them", nullable=True),
    ),
    ("sessa/training/task=*/mixer=*/sessa_accuracy",),
)

SUBJECT = (
    Column("weights", TEXT, "-", "'initial', 'trained' or 'diffuse' (constructed)"),
    Column("seed", INT, "-", "root seed of the model"),
    Column("layer", INT, "-", "layer from 0; of kind 'stack' the number of layers"),
)
KIND = Column(
    "kind",
    TEXT,
    "-",
    "routing kept fixed: 'forward', 'feedback', 'mixer', 'memory'; end to end: 'block', 'stack'",
)

JACOBIANS = Table(
    "sessa_jacobians",
    (
        *SUBJECT,
        KIND,
        Column("head", INT, "-", "head of attention or of Mamba2; -1 for none"),
        Column("lag", INT, "tokens", "from source to the last position"),
        Column("norm", FLOAT, "-", "geometric mean over sequences"),
        Column("smallest", FLOAT, "-", "over sequences"),
        Column("largest", FLOAT, "-", "over sequences"),
        Column("bound", FLOAT, "-", "of Theorem 8, realised constants, smallest", nullable=True),
        Column("violated", FLAG, "-", "whether a sequence is above its bound"),
    ),
    ("sessa/diagnostics/task=*/mixer=*/sessa_jacobians",),
)

DECAY = Table(
    "sessa_decay",
    (
        *SUBJECT,
        KIND,
        Column("head", INT, "-", "head of attention or of Mamba2; -1 for none"),
        Column(
            "decay_class", TEXT, "-", "law of the smallest AIC; 'rising' if it falls not, 'zero'"
        ),
        Column("beta", FLOAT, "-", "exponent of the power law, least squares on logs", True),
        Column("beta_low", FLOAT, "-", "lower end of its 95% interval over sequences", True),
        Column("beta_high", FLOAT, "-", "upper end", True),
        Column("rate", FLOAT, "1 / token", "c of the exponential law", True),
        *(
            Column(f"aic_{name}", FLOAT, "-", f"of the {text}", nullable=True)
            for name, text in (
                ("power", "power law"),
                ("power_log", "power law with a logarithm"),
                ("exponential", "exponential law"),
                ("inverse", "law 1 / lag"),
            )
        ),
    ),
    ("sessa/diagnostics/task=*/mixer=*/sessa_decay",),
)

REGIME = Table(
    "sessa_regime",
    (
        *SUBJECT,
        Column("quantity", TEXT, "-", "see docs/sessa.md"),
        Column("value", FLOAT, "-", "over sequences as the quantity says"),
    ),
    ("sessa/diagnostics/task=*/mixer=*/sessa_regime",),
)

DIAGNOSED = Table(
    "sessa_diagnosed",
    (
        Column("weights", TEXT, "-", "'initial', 'trained' or 'diffuse' (constructed)"),
        Column("seed", INT, "-", "root seed of the model"),
        Column("lr", FLOAT, "-", "learning rate chosen for the trained model", nullable=True),
        *STATUS,
        Column("accuracy", FLOAT, "-", "test accuracy of the model", nullable=True),
        Column("accuracy_no_gain", FLOAT, "-", "the same with all gains set to 0", nullable=True),
        Column("loss", FLOAT, "nats per answer", "test loss of the model", nullable=True),
        Column("loss_no_gain", FLOAT, "nats per answer", "with all gains set to 0", nullable=True),
        *HASHES,
    ),
    ("sessa/diagnostics/task=*/mixer=*/sessa_diagnosed",),
)

FEDERATED_KEYS = (
    Column("value", TEXT, "-", "hyperparameters in canonical spelling, '-' when there are none"),
    Column("beta", FLOAT, "-", "heterogeneity of the clients"),
    Column("gain_limit", FLOAT, "-", "what |b_gamma| is clipped to; null: not", nullable=True),
    Column("seed", INT, "-", "root seed of initial model and batches"),
)

FEDERATED_RUNS = Table(
    "sessa_federated_runs",
    (
        *FEDERATED_KEYS,
        *STATUS,
        Column("failed_round", INT, "-", "round of the failure", nullable=True),
        Column("rounds", INT, "rounds", "rounds recorded"),
        *SIZES,
        Column("validation_loss", FLOAT, "nats per answer", "of the last model"),
        Column("validation_accuracy", FLOAT, "-", "of the last model"),
        Column("test_loss", FLOAT, "nats per answer", "of the last model"),
        Column("test_accuracy", FLOAT, "-", "of the last model"),
        *HASHES,
    ),
    ("sessa/federated/task=*/mixer=*/algorithm=*/sessa_federated_runs",),
)

FEDERATED_ROUNDS = Table(
    "sessa_federated_rounds",
    (
        *FEDERATED_KEYS,
        Column("round", INT, "-", "communication round from 1"),
        Column("train_loss", FLOAT, "nats per answer", "mean over clients and local steps"),
        Column("validation_loss", FLOAT, "nats per answer", "of the global model"),
        Column("validation_accuracy", FLOAT, "-", "of the global model"),
        Column("client_drift_mean", FLOAT, "-", "mean over clients of ||local - global||"),
        Column("update_dispersion", FLOAT, "-", "weighted mean of ||update - mean update||^2"),
        Column("gain_drift", FLOAT, "-", "mean client drift of the gains' parameters", True),
        Column("gain_largest", FLOAT, "-", "rho: largest |gamma| on a probe batch", True),
        Column("c2", FLOAT, "-", "largest t alpha_tj of the feedback on it", True),
        Column("eta", FLOAT, "-", "rho c2, largest over layers", True),
    ),
    ("sessa/federated/task=*/mixer=*/algorithm=*/sessa_federated_rounds",),
)

FEDERATED_CLIENTS = Table(
    "sessa_federated_clients",
    (
        *FEDERATED_KEYS,
        Column("client", INT, "-", "client from 0"),
        Column("source", TEXT, "-", "what its sequences are of"),
        Column("sequences", INT, "-", "sequences of the source it holds"),
    ),
    ("sessa/federated/task=*/mixer=*/algorithm=*/sessa_federated_clients",),
)

SPEED = Table(
    "sessa_speed",
    (
        Column("mixer", TEXT, "-", "kind of layer"),
        Column("length", INT, "tokens", "tokens per sequence"),
        Column("d_model", INT, "channels", "width of the block"),
        Column("forward", FLOAT, "seconds", "median of the repeats, one sequence"),
        Column("backward", FLOAT, "seconds", "median of the repeats"),
        Column("peak_numbers", INT, "numbers", "largest tensor of forward and backward pass"),
    ),
    ("sessa/speed/sessa_speed",),
)

TRAINING_TABLES = (RUNS, CURVES, ACCURACY)
DIAGNOSTIC_TABLES = (DIAGNOSED, JACOBIANS, DECAY, REGIME)
FEDERATED_TABLES = (FEDERATED_RUNS, FEDERATED_ROUNDS, FEDERATED_CLIENTS)
