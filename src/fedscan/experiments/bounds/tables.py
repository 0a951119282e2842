"""Tables of the synthetic study: teachers, learners, bounds. Folders carry D and N."""

import pyarrow as pa

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column

FLOATS32, FLOATS64 = pa.list_(pa.float32()), pa.list_(pa.float64())
TOKENS = pa.list_(pa.uint8())

RHO = Column("rho", FLOAT, "-", "stability limit of the configuration")
SEED = Column("seed", INT, "-", "root seed of the learner")
MARGINS = (
    Column("gamma", FLOAT, "-", "margin: A_n <= -gamma"),
    Column("delta", FLOAT, "-", "margin: every step of the state >= delta"),
)
REALISED = (
    Column("gamma_hat", FLOAT, "-", "realised margin of A, min_n(-A_n)"),
    Column("delta_hat", FLOAT, "-", "realised smallest step over all inputs"),
    Column("rho_hat", FLOAT, "-", "realised stability limit exp(-gamma_hat delta_hat)"),
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
TEACHERS = (
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
)
CANDIDATES = (
    *CANDIDATE,
    Column("candidate", INT, "-", "position in the search, from 1"),
    Column("sample", TEXT, "-", "'screen' for the small draw, 'full' for the data that is kept"),
    Column("accepted", FLAG, "-", "all criteria met on the full data"),
    Column("refused", TEXT, "-", "criteria not met, comma-separated"),
    *DIAGNOSTICS,
)
TEACHER_SEQUENCES = (
    RHO,
    Column("split", TEXT, "-", "'train' or 'test'"),
    Column("sequence", INT, "-", "index within the split"),
    Column("tokens", TOKENS, "token ids", "stored tokens"),
)
LEARNERS = (
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
)
CHECKPOINTS = (
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
)
POINT = (
    RHO,
    SEED,
    Column("checkpoint", TEXT, "-", "initialization, intermediate, final, or frozen_teacher"),
    Column("update", INT, "updates", "updates taken, null for the teacher", nullable=True),
)
BLOCK_NAMES = ("W_delta", "W_B", "W_C", "A")
POINTS = (
    *POINT,
    *MARGINS,
    *REALISED,
    *(Column(f"norm_{b}", FLOAT, "-", f"spectral norm of {b}") for b in BLOCK_NAMES),
    Column("k_delta", FLOAT, "-", "K_delta of Theorem 4.4"),
    Column("k_b", FLOAT, "-", "K_B of Theorem 4.4"),
    Column("G", FLOAT, "-", "gradient bound G_SSM, configured constants"),
    Column("G_tight", FLOAT, "-", "gradient bound with realised constants"),
    Column("recurrent_share", FLOAT, "-", "share of G carried by the recurrent Jacobian"),
    Column("L", FLOAT, "-", "smoothness bound L_SSM at the point, configured constants"),
    Column("L_tight", FLOAT, "-", "smoothness bound with realised constants; ours"),
    Column("L_step", FLOAT, "-", "smoothness bound on the ball of the finite-difference step"),
    Column("overflow", TEXT, "-", "quantities that are infinite, comma-separated"),
    Column("sequences", INT, "sequences", "test sequences whose gradients were measured"),
    Column("gradient_median", FLOAT, "-", "median over sequences of the gradient's norm"),
    Column("gradient_mean", FLOAT, "-", "mean over sequences of the gradient's norm"),
    Column("gradient_max", FLOAT, "-", "largest norm of a sequence's gradient"),
    Column("batch_gradient", FLOAT, "-", "norm of the gradient of the mean loss"),
    *(
        Column(f"share_{b}", FLOAT, "-", f"median share of the squared norm carried by {b}")
        for b in BLOCK_NAMES
    ),
    Column("violations", INT, "sequences", "gradients above G (1 + 1e-8)"),
    Column("violations_tight", INT, "sequences", "gradients above G_tight (1 + 1e-8)"),
    Column("batch_violations", INT, "-", "mean gradient above the mean norm, G or G_tight"),
)
GRADIENTS = (
    *POINT,
    Column("sequence", INT, "-", "test sequence"),
    Column("loss", FLOAT, "nats per token", "of the sequence"),
    *(Column(f"gradient_{b}", FLOAT, "-", f"norm of the gradient in {b}") for b in BLOCK_NAMES),
    Column("gradient_norm", FLOAT, "-", "norm over all blocks"),
)
CURVATURE = (
    *POINT,
    Column("sequence", INT, "-", "test sequence"),
    Column("hessian_norm", FLOAT, "-", "spectral norm of the Hessian, from below"),
    Column("iterations", INT, "-", "power iterations"),
    Column("converged", FLAG, "-", "stopped by the Rayleigh quotient"),
    Column("difference_ratio", FLOAT, "-", "largest ||dL(W+hU) - dL(W)||/h of 3 directions U"),
    Column("applicable", FLAG, "-", "the ball of radius h lies in the stability set"),
    Column("own_bound", FLOAT, "-", "smoothness bound on the ball with the ball's own margins"),
    Column("violation_hessian", FLAG, "-", "hessian_norm above L"),
    Column("violation_tight", FLAG, "-", "hessian_norm above L_tight"),
    Column("violation_difference", FLAG, "-", "ratio above L_step where applicable"),
    Column("violation_own", FLAG, "-", "ratio above own_bound"),
)
TRAJECTORIES = (
    RHO,
    SEED,
    Column("update", INT, "updates", "start of the pair"),
    Column("next_update", INT, "updates", "end of the pair"),
    Column("distance", FLOAT, "-", "||W_b - W_a||_F"),
    Column("gradient_ratio", FLOAT, "-", "largest change of a sequence's gradient / distance"),
    Column("L_distance", FLOAT, "-", "smoothness bound around W_a with this radius"),
    Column("bound_ratio", FLOAT, "-", "|G(W_b) - G(W_a)| / distance"),
    Column("L_G_distance", FLOAT, "-", "Lipschitz constant of G around W_a with this radius"),
    Column("violation_gradient", FLAG, "-", "gradient_ratio above its bound"),
    Column("violation_bound", FLAG, "-", "bound_ratio above its bound"),
)
PER_LAYER = (
    ("input_bounds", "certified input bound L_x"),
    ("input_maxima", "largest input norm over the sequences"),
    ("step_margins", "certified margin delta"),
    ("step_minima", "smallest step over the sequences"),
    ("rhos", "certified stability limit"),
    ("rhos_realised", "stability limit over the sequences"),
)
STACKS = (
    Column("depth", INT, "layers", "number of layers Q"),
    RHO,
    Column("origin", TEXT, "-", "'random' or 'trained'"),
    Column("scale", FLOAT, "-", "standard deviation of random weights", nullable=True),
    Column("point", INT, "-", "index of a random point; seed of a trained stack"),
    Column("update", INT, "updates", "updates taken, null for random points", nullable=True),
    Column("loss", FLOAT, "nats per token", "mean over the sequences"),
    Column("gradient_median", FLOAT, "-", "median over sequences, all layers' parameters"),
    Column("gradient_max", FLOAT, "-", "largest over sequences"),
    Column("hessian_max", FLOAT, "-", "largest spectral norm over sequences, from below"),
    Column("G", FLOAT, "-", "G^(Q) of Theorem C.3, certified constants"),
    Column("G_realised", FLOAT, "-", "the same, constants realised on the sequences; ours"),
    Column("G_common", FLOAT, "-", "closed form D.2 with the layers' largest constants"),
    Column("L", FLOAT, "-", "L^(Q) of Lemma C.4 at the point"),
    Column("L_realised", FLOAT, "-", "the same, realised constants; ours"),
    Column("L_common", FLOAT, "-", "closed form D.4 with the layers' largest constants"),
    *(Column(name, FLOATS64, "-", f"per layer, {text}") for name, text in PER_LAYER),
    Column("overflow", TEXT, "-", "quantities that are infinite, comma-separated"),
    Column("checks", INT, "-", "inequalities checked"),
    Column("violations", INT, "-", "inequalities violated"),
)
VIOLATIONS = (
    Column("check", TEXT, "-", "inequality that failed"),
    Column("subject", TEXT, "JSON", "where: rho, seed, checkpoint, ..."),
    Column("measured", FLOAT, "-", "left-hand side"),
    Column("bound", FLOAT, "-", "right-hand side"),
    Column("parameters", FLOATS64, "-", "W_delta, W_B, W_C, A per layer, rows first"),
    Column("tokens", TOKENS, "token ids", "the sequence; empty if the check has none"),
)

NUMBERS = (
    Column("table", TEXT, "-", "table or figure of the paper, or a name of ours"),
    Column("row", TEXT, "-", "row of that table"),
    Column("quantity", TEXT, "-", "column of that table"),
    Column("value", FLOAT, "as named", "this run's number", nullable=True),
    Column("low", FLOAT, "as named", "lower end of the 95% interval", nullable=True),
    Column("high", FLOAT, "as named", "upper end", nullable=True),
    Column("paper", FLOAT, "as named", "the paper's number", nullable=True),
    Column("difference", FLOAT, "as named", "value - paper", nullable=True),
    Column("note", TEXT, "-", "what differs, or whose the number is"),
)

SYNTHETIC_TABLES: dict[str, tuple[Column, ...]] = {
    "teachers": TEACHERS,
    "candidates": CANDIDATES,
    "teacher_sequences": TEACHER_SEQUENCES,
    "learners": LEARNERS,
    "checkpoints": CHECKPOINTS,
    "points": POINTS,
    "gradients": GRADIENTS,
    "curvature": CURVATURE,
    "trajectories": TRAJECTORIES,
    "stacks": STACKS,
    "numbers": NUMBERS,
    "violations": VIOLATIONS,
}
