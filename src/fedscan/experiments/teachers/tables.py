"""Tables of teachers and their datasets. Folders carry D and N."""

from fedscan.io.tables import FLAG, FLOAT, FLOATS32, INT, TEXT, TOKENS8, Column, Table

SHAPE = "D=*/N=*"
# Columns of a collected table that name a dataset.
CELL = ["d_input", "d_state", "rho"]

RHO = Column("rho", FLOAT, "-", "stability limit of the configuration")

MARGINS = (
    Column("gamma", FLOAT, "-", "margin: A_n <= -gamma"),
    Column("delta", FLOAT, "-", "margin: every step of the state >= delta"),
)

CANDIDATE = (
    RHO,
    Column("teacher_seed", INT, "-", "seed of the teacher's weights"),
    Column("gain", FLOAT, "-", "factor of W_B"),
    Column("temperature", FLOAT, "-", "of the softmax that makes tokens of logits"),
)

DIAGNOSTICS = (
    Column("largest_marginal", FLOAT, "-", "share of the most frequent token"),
    Column("marginal_entropy", FLOAT, "nats", "entropy of the token marginal"),
    Column("majority_share_95", FLOAT, "-", "95th percentile of a test sequence's top share"),
    Column("covered_tokens", INT, "tokens", "tokens that occur in train and in test"),
    Column("constant_share", FLOAT, "-", "share of sequences of one token"),
    Column("distinct_share", FLOAT, "-", "distinct sequences / sequences"),
    Column("nll", FLOAT, "nats per token", "teacher-forced, at the temperature, from h_0 = 0"),
    Column("mutual_information", FLOAT, "nats", "between consecutive tokens"),
    Column("finite", FLAG, "-", "everything computed is finite"),
    Column("rho_hat", FLOAT, "-", "realised stability limit"),
    Column("stable", FLAG, "-", "certificate over all inputs"),
)

TEACHERS = Table(
    "teachers",
    (
        *CANDIDATE,
        *MARGINS,
        *DIAGNOSTICS,
        Column("candidates", INT, "-", "candidates tried, the accepted one included"),
        Column("test_nll", FLOAT, "nats per token", "teacher-forced on the test split"),
        Column("parameters", FLOATS32, "-", "W_delta, W_B, W_C, A, rows first"),
        Column("parameters_sha256", TEXT, "-", "digest of the parameters' bytes"),
        Column("train_sha256", TEXT, "-", "digest of the training tokens"),
        Column("test_sha256", TEXT, "-", "digest of the test tokens"),
        Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
    ),
    (f"teachers/{SHAPE}/teachers",),
)

CANDIDATES = Table(
    "candidates",
    (
        *CANDIDATE,
        Column("candidate", INT, "-", "position in the search, from 1"),
        Column(
            "sample", TEXT, "-", "'screen' for the small draw, 'full' for the data that is kept"
        ),
        Column("accepted", FLAG, "-", "all criteria met on the full data"),
        Column("refused", TEXT, "-", "criteria not met, comma-separated"),
        *DIAGNOSTICS,
    ),
    (f"teachers/{SHAPE}/candidates",),
)

TEACHER_SEQUENCES = Table(
    "teacher_sequences",
    (
        RHO,
        Column("split", TEXT, "-", "'train' or 'test'"),
        Column("sequence", INT, "-", "index within the split"),
        Column("tokens", TOKENS8, "token ids", "stored tokens"),
    ),
    (f"teachers/{SHAPE}/teacher_sequences",),
)
