"""Tables made of all training jobs."""

from typing import NamedTuple

from fedscan.experiments.comparison.tables import IN_PROJ_BLOCKS, ROUNDS, RUNS, VALUE
from fedscan.io.tables import FLOAT, INT, TEXT, Column, Table

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

COMPARISON = Table(
    "comparison",
    (
        Column("study", TEXT, "-", "study of the configuration that the runs belong to"),
        *JOB_KEYS[:-1],
        VALUE,
        Column("values_tried", INT, "-", "hyperparameter values with all seeds completed"),
        Column("values_missing", INT, "-", "values without all their seeds"),
        Column("failed_runs", INT, "runs", "runs of any value that ended non-finite"),
        Column(
            "missing_runs", INT, "runs", "runs of any value that are not there (partial tables)"
        ),
        Column("seeds", INT, "seeds", "seeds averaged"),
        *_MEAN_STD,
        Column(
            "change_percent", FLOAT, "%", "change of val_ppl_last10 against FedAvg", nullable=True
        ),
    ),
    ("compare/comparison",),
)

ALL_RUNS = Table(
    "all_runs",
    (*JOB_KEYS, *RUNS.columns),
    ("compare/all_runs",),
)

ALL_ROUNDS = Table(
    "all_rounds",
    (*JOB_KEYS, *ROUNDS.columns),
    ("compare/all_rounds",),
)


class Quantity(NamedTuple):
    """What is averaged over a run's rounds: column, what a reader calls it, unit and meaning."""

    name: str
    words: str
    unit: str
    meaning: str


AVERAGED = (
    Quantity("client_drift", "client drift", "-", "mean over clients of ||local - global||"),
    Quantity("client_drift_max", "largest client drift", "-", "largest ||local - global||"),
    Quantity(
        "update_dispersion",
        "update dispersion",
        "-",
        "weighted mean of ||update - mean update||^2",
    ),
    Quantity(
        "mean_update_norm", "norm of the mean update", "-", "norm of the weighted mean update"
    ),
    Quantity(
        "server_displacement",
        "server displacement",
        "-",
        "norm of the change of the global parameters",
    ),
    Quantity(
        "cosine_to_mean",
        "cosine of updates to their mean",
        "-",
        "mean over clients of cos(update, mean update)",
    ),
    Quantity(
        "gradient_norm",
        "local gradient norm",
        "-",
        "mean norm of the local step directions before clipping",
    ),
    Quantity(
        "rho_hat",
        "realised ρ̂ (slowest head)",
        "-",
        "largest exp(A dt) of any head on the probe batch",
    ),
    Quantity(
        "median_decay",
        "median decay of the heads",
        "-",
        "median over heads of the median exp(A dt)",
    ),
    *(
        Quantity(
            f"spectral_norm_{block}",
            f"spectral norm of block {block}",
            "-",
            f"largest singular value of in_proj's {block}, mixers' mean",
        )
        for block in IN_PROJ_BLOCKS
    ),
)

QUANTITIES = Table(
    "quantities",
    (
        *JOB_KEYS,
        VALUE,
        *(
            Column(q.name, FLOAT, q.unit, f"{q.meaning}; mean over rounds", nullable=True)
            for q in AVERAGED
        ),
    ),
    ("practice/quantities",),
)
