"""Tables of federated models and of merges, iterated over depth."""

from fedscan.io.tables import FLOAT, INT, TEXT, Column, Table
from fedscan.pipeline.tables import HASHES

SUBJECT = Column("subject", TEXT, "-", "the model, spelled out")
VARIANT = Column("variant", TEXT, "-", "how layers are iterated, a name of consensus.variants")
OUTCOME = (
    Column("applied", INT, "layers", "layers applied: the model's own number, or kappa"),
    Column("status", TEXT, "-", "'completed', 'failed', or 'skipped' where it is not defined"),
    Column("failure", TEXT, "-", "what failed, or why it was skipped", nullable=True),
    Column("draws", INT, "draws", "draws that the means are over"),
    Column("failed_draws", INT, "draws", "draws with a token that had no direction"),
    Column("lambda1", FLOAT, "-", "largest eigenvalue of the Gram matrix / l, mean", nullable=True),
    Column("participation", FLOAT, "-", "1 / sum of squared scaled eigenvalues, mean", True),
    Column("mean_cosine", FLOAT, "-", "mean cosine of two different tokens, mean", nullable=True),
    Column("initial_lambda1", FLOAT, "-", "lambda1 of the embedded tokens, mean", nullable=True),
    Column("t_star_largest", INT, "layers", "largest T* of q_token, where all have one", True),
    Column("without_t_star", INT, "tokens", "tokens of all draws without T*", nullable=True),
)

RUNS = Table(
    "consensus_runs",
    (
        SUBJECT,
        VARIANT,
        Column("kind", TEXT, "-", "'run', or 'initial' for the model that runs start from"),
        Column("backbone", TEXT, "-", "layer layout of the model"),
        Column("depth", INT, "layers", "number of mixer layers"),
        Column("seed", INT, "-", "root seed of initial model and batches"),
        Column("clients", INT, "clients", "number of clients K", nullable=True),
        Column("setting", TEXT, "-", "which domains the clients hold", nullable=True),
        Column("local_steps", INT, "steps", "local steps per round E", nullable=True),
        Column("beta", FLOAT, "-", "heterogeneity", nullable=True),
        Column("algorithm", TEXT, "-", "federated algorithm", nullable=True),
        Column("value", TEXT, "-", "hyperparameters in canonical spelling", nullable=True),
        Column("round", INT, "-", "communication round; 0: the initial model"),
        Column("val_ppl_last10", FLOAT, "per token", "of the run, at its end", nullable=True),
        *OUTCOME,
        *HASHES,
    ),
    ("consensus/runs/study=*/consensus_runs",),
)

MERGES = Table(
    "consensus_merges",
    (
        SUBJECT,
        VARIANT,
        Column("base", TEXT, "-", "name of the base model"),
        Column("kind", TEXT, "-", "'base', 'specialist', or the merge"),
        Column("seed", INT, "-", "root seed of the specialists; null: of none", nullable=True),
        Column("task", TEXT, "-", "of a specialist", nullable=True),
        Column("scale", FLOAT, "-", "lambda of a merge", nullable=True),
        Column("density", FLOAT, "-", "share of entries kept, TIES alone", nullable=True),
        *OUTCOME,
        *HASHES,
    ),
    ("consensus/merging/consensus_merges",),
)

SUBJECT_UNIT = ("subject", "variant")
