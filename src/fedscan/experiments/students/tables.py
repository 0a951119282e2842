"""Tables of federated learners. Folders carry D, N and rho."""

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column, Table

CELL_FOLDER = "students/D=*/N=*/rho=*"

RUN_KEYS = (
    Column("clients", INT, "clients", "number of clients K"),
    Column("local_steps", INT, "steps", "local steps per round E"),
    Column("partition", TEXT, "-", "'iid' or 'dominant' (sorted by most frequent token)"),
    Column("algorithm", TEXT, "-", "federated algorithm"),
    Column("value", TEXT, "-", "hyperparameters in canonical spelling, '-' when there are none"),
    Column("seed", INT, "-", "root seed of initial layer, partition and batches"),
)

THEOREM = tuple(
    Column(name, FLOAT, "-", meaning, nullable=True)
    for name, meaning in (
        ("radius_local", "R of FedAvg, R_mu of FedProx: reach of a local phase"),
        ("L_envelope", "smoothness bound on the theorem's envelope"),
        ("G_envelope", "gradient bound on the theorem's envelope"),
        ("term_optimisation", "4 or 3 times (f(W0) - 0) / (eta E T)"),
        ("term_variance", "noise of the mean step"),
        ("term_local_variance", "noise of the local steps"),
        ("term_heterogeneity", "disagreement of the clients"),
        ("right_side", "right-hand side of Theorem B.5 (FedAvg) or B.6 (FedProx)"),
        ("left_side", "mean over rounds of ||grad f(W^r)||^2 on the subset"),
        ("step_condition", "eta E L, at most 1/2 for the theorem to apply"),
        ("drift_condition", "12 eta^2 L^2 E (E-1), at most 1"),
    )
)

STUDENT_RUNS = Table(
    "student_runs",
    (
        *RUN_KEYS,
        Column("hyperparameters", TEXT, "JSON", "hyperparameters by name"),
        Column("studies", TEXT, "-", "studies that ask for the run, comma-separated"),
        Column("status", TEXT, "-", "'completed' or 'failed'"),
        Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
        Column("failed_round", INT, "-", "round of the failure", nullable=True),
        Column(
            "failed_client", INT, "-", "client of the failure, null at the server", nullable=True
        ),
        Column("rounds", INT, "rounds", "rounds completed"),
        Column("local_phase", TEXT, "-", "'compiled' or 'generic'"),
        Column("test_nll", FLOAT, "nats per token", "of the last global model"),
        Column("initial_loss", FLOAT, "nats per token", "f(W0) on the full training set"),
        Column("G_initial", FLOAT, "-", "G_SSM(W0)"),
        Column("radius", FLOAT, "-", "R = eta E G_SSM(W0)"),
        Column(
            "tv_sequence", FLOAT, "-", "sum_k p_k TV_k^2 over whole sequences: H_TV of the lemma"
        ),
        Column("tv_bigram", FLOAT, "-", "the same over pairs of tokens; a diagnostic, uncertified"),
        Column("tv_unigram", FLOAT, "-", "the same over tokens; a diagnostic, uncertified"),
        *THEOREM,
        Column("theorem_applies", FLAG, "-", "both step-size conditions hold"),
        Column("contained", FLAG, "-", "every local iterate stayed within radius of the broadcast"),
        Column("certified", FLAG, "-", "member of the stability set after every step"),
        Column("checks", INT, "-", "inequalities checked"),
        Column("violations", INT, "-", "inequalities violated"),
        Column("data_sha256", TEXT, "-", "digest of teacher and tokens"),
        Column("config_hash", TEXT, "-", "hash of every config value the run depends on"),
        Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
    ),
    (f"{CELL_FOLDER}/student_runs",),
)


def _number(name: str, unit: str, meaning: str) -> Column:
    return Column(name, FLOAT, unit, meaning, nullable=True)


STUDENT_ROUNDS = Table(
    "student_rounds",
    (
        *RUN_KEYS,
        Column("round", INT, "-", "rounds completed r; 0 is the initial layer"),
        Column("gradient_squared", FLOAT, "-", "||grad f(W^r)||^2 on the fixed training subset"),
        Column("test_nll", FLOAT, "nats per token", "of the global model"),
        _number("client_drift_mean", "-", "mean over clients of ||W_k^{r,E} - W^r||"),
        _number("client_drift_max", "-", "largest ||W_k^{r,E} - W^r||"),
        _number("displacement_max", "-", "largest ||W_k^{r,e} - W^r|| over steps and clients"),
        _number("server_displacement", "-", "||W^{r+1} - W^r||"),
        _number("projected", "entries", "entries moved by projections, over clients and steps"),
        _number("local_bound", "-", "bound on displacement_max for the algorithm (Appendix E)"),
        _number("server_bound", "-", "bound on server_displacement, where the paper has one"),
        _number("G", "-", "G_SSM(W^r), configured constants"),
        _number("G_tight", "-", "G_SSM(W^r), realised constants"),
        _number("disagreement", "-", "sum_k p_k ||grad L_k(W^r) - grad f(W^r)||^2, full shards"),
        _number("disagreement_bound", "-", "4 G^2 H_TV"),
        _number("disagreement_bound_tight", "-", "4 G_tight^2 H_TV"),
        _number("token_level", "-", "4 G_tight^2 sum_k p_k TV_k^2 over bigrams; ours, uncertified"),
    ),
    (f"{CELL_FOLDER}/student_rounds",),
)
