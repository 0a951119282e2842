"""Every table fedscan writes: its columns, their types, units and meanings.

A table is declared once here; ``io.parquet.write`` refuses anything else. Keys that are part of a
path (setting=1/depth=4/...) are not repeated as columns, so that hive-style readers see one
column of one type.
"""

import pyarrow as pa

from fedscan.experiments.bounds.tables import SYNTHETIC_TABLES
from fedscan.experiments.merging.tables import MERGING_TABLES
from fedscan.experiments.students.tables import STUDENT_TABLES
from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column

JOB_KEYS = (
    Column("backbone", TEXT, "-", "layer layout of the model"),
    Column("clients", INT, "clients", "number of clients K"),
    Column("setting", TEXT, "-", "which domains the clients hold"),
    Column("depth", INT, "layers", "number of mixer layers"),
    Column("local_steps", INT, "steps", "local steps per round E"),
    Column("beta", FLOAT, "-", "heterogeneity: 0 equal mixture, 1 only the primary domain"),
    Column("algorithm", TEXT, "-", "federated algorithm"),
    Column("seed", INT, "-", "root seed of initial model and batches"),
)
VALUE = Column("value", TEXT, "-", "hyperparameters in canonical spelling, '-' when there are none")
DATA_SOURCE = Column("data_source", TEXT, "-", "where the text comes from; 'synthetic' is made up")
TOKENIZER = Column("tokenizer", TEXT, "-", "perplexities are per token of this tokenizer")

DOCUMENTS = (
    Column("domain", TEXT, "-", "text domain; '' for records without a usable one"),
    Column("outcome", TEXT, "-", "'kept' or the reason why records were dropped"),
    Column("records", INT, "records", "number of records"),
)
TOKENS = (
    Column("sequence", INT, "-", "index within the domain and split, in packing order"),
    Column("input_ids", pa.list_(pa.uint16()), "token ids", "one packed sequence"),
)
SEQUENCES = (
    Column("client", INT, "-", "client that holds the sequence"),
    Column("domain", TEXT, "-", "domain of the sequence"),
    Column("sequence", INT, "-", "index within the domain and split: no two clients share one"),
    Column("input_ids", pa.list_(pa.uint16()), "token ids", "one packed sequence"),
)
PARTITION = (
    Column("client", INT, "-", "client index from 0"),
    Column("primary_domain", TEXT, "-", "domain assigned to the client, round-robin"),
    Column("domain", TEXT, "-", "domain of the sequences counted"),
    Column("split", TEXT, "-", "'train' or 'validation'"),
    Column("share", FLOAT, "-", "share of the domain in the client's mixture"),
    Column("cap", INT, "sequences", "budget of the client in this split"),
    Column("limiter", TEXT, "-", "domain whose pool limits the budget"),
    Column("requested", INT, "sequences", "round(share * cap)"),
    Column("first", INT, "-", "first sequence index held"),
    Column("count", INT, "sequences", "sequences held"),
)
RUNS = (
    VALUE,
    Column("hyperparameters", TEXT, "JSON", "hyperparameters by name"),
    Column("status", TEXT, "-", "'completed' or 'failed'"),
    Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
    Column("failed_round", INT, "-", "round of the failure", nullable=True),
    Column("failed_client", INT, "-", "client of the failure, null at the server", nullable=True),
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
)
ROUNDS = (
    VALUE,
    Column("round", INT, "-", "communication round from 1"),
    Column("train_ppl", FLOAT, "per token", "mean over clients of exp(mean local cross-entropy)"),
    Column("val_loss", FLOAT, "nats per token", "server validation cross-entropy"),
    Column("val_ppl", FLOAT, "per token", "exp(val_loss), +inf on overflow"),
    Column("client_drift_mean", FLOAT, "-", "mean over clients of ||local - global||"),
    Column("client_drift_max", FLOAT, "-", "largest ||local - global||"),
    Column("mean_update_norm", FLOAT, "-", "norm of the weighted mean update"),
    Column("server_displacement", FLOAT, "-", "norm of the change of the global parameters"),
    Column("update_dispersion", FLOAT, "-", "weighted mean of ||update - mean update||^2"),
    Column("cosine_to_mean", FLOAT, "-", "mean over clients of cos(update, mean update)"),
    Column("internals", TEXT, "JSON", "quantities of the algorithm, by name"),
)
CLIENTS = (
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
)
MIXERS = (
    VALUE,
    Column("round", INT, "-", "communication round from 1"),
    Column("layer", INT, "-", "layer of the Mamba2 mixer, from 0"),
    *(
        Column(f"spectral_norm_{block}", FLOAT, "-", f"largest singular value of in_proj's {block}")
        for block in ("z", "x", "B", "C", "dt")
    ),
)
HEADS = (
    VALUE,
    Column("round", INT, "-", "communication round from 1"),
    Column("layer", INT, "-", "layer of the Mamba2 mixer, from 0"),
    Column("head", INT, "-", "head of the mixer, from 0"),
    *(
        Column(f"decay_{name}", FLOAT, "-", f"{name} of exp(A dt) over a fixed probe batch")
        for name in ("min", "median", "max")
    ),
)
_MEAN_STD = tuple(
    Column(
        f"{metric}_{statistic}", FLOAT, "per token", f"{text}, {label} over seeds", nullable=True
    )
    for metric, text in (
        ("train_ppl", "training perplexity, mean over rounds and clients"),
        ("val_ppl", "validation perplexity, mean over rounds"),
        ("val_ppl_last10", "validation perplexity, mean over the last 10 rounds"),
    )
    for statistic, label in (("mean", "mean"), ("std", "sample standard deviation"))
)
COMPARISON = (
    Column("study", TEXT, "-", "study of the configuration that the runs belong to"),
    *JOB_KEYS[:-1],
    VALUE,
    Column("values_tried", INT, "-", "hyperparameter values with all seeds completed"),
    Column("values_missing", INT, "-", "values without all their seeds"),
    Column("failed_runs", INT, "runs", "runs of any value that ended non-finite"),
    Column("missing_runs", INT, "runs", "runs of any value that are not there (partial tables)"),
    Column("seeds", INT, "seeds", "seeds averaged"),
    *_MEAN_STD,
    Column("change_percent", FLOAT, "%", "change of val_ppl_last10 against FedAvg", nullable=True),
)
ALL_RUNS = (*JOB_KEYS, *RUNS)
ALL_ROUNDS = (*JOB_KEYS, *ROUNDS)
_AVERAGED = {
    "client_drift": ("-", "mean over clients of ||local - global||"),
    "client_drift_max": ("-", "largest ||local - global||"),
    "update_dispersion": ("-", "weighted mean of ||update - mean update||^2"),
    "mean_update_norm": ("-", "norm of the weighted mean update"),
    "server_displacement": ("-", "norm of the change of the global parameters"),
    "cosine_to_mean": ("-", "mean over clients of cos(update, mean update)"),
    "gradient_norm": ("-", "mean norm of the local step directions before clipping"),
    "rho_hat": ("-", "largest exp(A dt) of any head on the probe batch"),
    "median_decay": ("-", "median over heads of the median exp(A dt)"),
    **{
        f"spectral_norm_{block}": (
            "-",
            f"largest singular value of in_proj's {block}, mixers' mean",
        )
        for block in ("z", "x", "B", "C", "dt")
    },
}
QUANTITIES = (
    *JOB_KEYS,
    VALUE,
    *(
        Column(name, FLOAT, unit, f"{meaning}; mean over rounds", nullable=True)
        for name, (unit, meaning) in _AVERAGED.items()
    ),
)
CHECKS = (
    Column("check", TEXT, "-", "what is checked"),
    Column("subject", TEXT, "-", "file or job"),
    Column("passed", FLAG, "-", "outcome"),
    Column("detail", TEXT, "-", "what was found"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "documents": DOCUMENTS,
    "tokens": TOKENS,
    "sequences": SEQUENCES,
    "partition": PARTITION,
    "runs": RUNS,
    "rounds": ROUNDS,
    "clients": CLIENTS,
    "mixers": MIXERS,
    "heads": HEADS,
    "comparison": COMPARISON,
    "all_runs": ALL_RUNS,
    "all_rounds": ALL_ROUNDS,
    "quantities": QUANTITIES,
    "checks": CHECKS,
    **SYNTHETIC_TABLES,
    **STUDENT_TABLES,
    **MERGING_TABLES,
}


def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a declared table.

    Args:
        table: key of ``TABLES``.

    Returns:
        Fields in the declared order.

    Raises:
        ValueError: if no such table is declared.
    """
    if table not in TABLES:
        raise ValueError(f"no table {table!r}; declared are {', '.join(TABLES)}")
    return pa.schema([pa.field(c.name, c.dtype, nullable=c.nullable) for c in TABLES[table]])
