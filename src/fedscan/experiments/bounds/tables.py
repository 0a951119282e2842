"""Tables of centrally trained learners. Folders carry D and N."""

from fedscan.experiments.teachers.tables import RHO, SHAPE
from fedscan.io.tables import FLAG, FLOAT, FLOATS32, INT, TEXT, Column, Table

SEED = Column("seed", INT, "-", "root seed of the learner")

REALISED = (
    Column("gamma_hat", FLOAT, "-", "realised margin of A, min_n(-A_n)"),
    Column("delta_hat", FLOAT, "-", "realised smallest step over all inputs"),
    Column("rho_hat", FLOAT, "-", "realised stability limit exp(-gamma_hat delta_hat)"),
)

LEARNERS = Table(
    "learners",
    (
        RHO,
        SEED,
        Column("status", TEXT, "-", "'completed' or 'failed'"),
        Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
        Column("updates", INT, "updates", "updates taken"),
        Column("certified", FLAG, "-", "member of the stability set after every update"),
        Column("projected", INT, "entries", "entries moved by the projection, over all updates"),
        Column("test_nll", FLOAT, "nats per token", "after the last checkpoint"),
        Column("teacher_nll", FLOAT, "nats per token", "of the teacher on the same test split"),
        Column("excess_nll", FLOAT, "nats per token", "test_nll - teacher_nll"),
        Column("gap_recovered", FLOAT, "-", "(ln D - test_nll) / (ln D - teacher_nll)"),
        *REALISED,
        Column("data_sha256", TEXT, "-", "digest of teacher and tokens"),
        Column("config_hash", TEXT, "-", "hash of every config value the run depends on"),
        Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
    ),
    (f"learners/{SHAPE}/learners",),
)

CHECKPOINTS = Table(
    "checkpoints",
    (
        RHO,
        SEED,
        Column("update", INT, "updates", "updates taken"),
        Column("train_loss", FLOAT, "nats per token", "mean over the updates since the last row"),
        Column("test_nll", FLOAT, "nats per token", "on the test split, from h_0 = 0"),
        Column("test_ppl", FLOAT, "per token", "exp(test_nll)"),
        Column("test_accuracy", FLOAT, "-", "share of next tokens with the largest logit"),
        Column("projected", INT, "entries", "entries moved by the projection since the last row"),
        Column("certified", FLAG, "-", "member of the stability set after each of these updates"),
        *REALISED,
        Column("parameters", FLOATS32, "-", "W_delta, W_B, W_C, A, rows first"),
    ),
    (f"learners/{SHAPE}/checkpoints",),
)
