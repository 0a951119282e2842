"""The table of random instances beside what is proved of them."""

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column, Table
from fedscan.pipeline.tables import HASHES

STATEMENTS = {
    "gap": "(20)",
    "identity": "(24)-(28), as an equation",
    "first": "Proposition IV.1 (1)",
    "later": "Proposition IV.1 (2)",
    "invariance": "Lemma V.1, as an inequality",
    "sector": "Proposition V.1",
}

INSTANCES = Table(
    "consensus_instances",
    (
        Column("kernel", TEXT, "-", "kind of S_BC"),
        Column("anisotropy", FLOAT, "-", "c_star of definite kernels; 0 for other kinds"),
        Column("instance", INT, "-", "which of its kind, from 0"),
        Column("silu", FLAG, "-", "whether B and C pass a SiLU; nothing is proved with it"),
        Column("n", INT, "channels", "channels"),
        Column("m", INT, "-", "state size"),
        Column("tokens", INT, "tokens", "l"),
        Column("status", TEXT, "-", "'completed' or 'failed'"),
        Column("failure", TEXT, "-", "what became non-finite", nullable=True),
        Column("gamma", FLOAT, "-", "certified spectral gap"),
        Column("gamma_upper", FLOAT, "-", "Gamma, largest gap"),
        Column("lambda_sum", FLOAT, "-", "Lambda, largest sum of earlier tokens' transfers"),
        Column("lambda_min", FLOAT, "-", "smallest transfer along the axis"),
        Column("lambda_max", FLOAT, "-", "largest transfer along the axis"),
        Column("alpha", FLOAT, "-", "smallest eigenvalue of sym(S_BC)"),
        Column("c_star", FLOAT, "-", "anisotropy of S_BC", nullable=True),
        Column("c_eff", FLOAT, "-", "threshold of Theorem V.1, with its factor l - 1", True),
        Column("c_eff_printed", FLOAT, "-", "the same as the paper prints it", nullable=True),
        Column("undefined", TEXT, "-", "why c_star and c_eff have no value", nullable=True),
        Column("excitation_c", FLOAT, "-", "cap of Assumption IV.1", nullable=True),
        Column("excitation_window", INT, "layers", "T of Assumption IV.1", nullable=True),
        Column("excitation_rho", FLOAT, "1 / time", "rho of Assumption IV.1", nullable=True),
        Column("starts", INT, "starts", "random starts"),
        Column("reached", INT, "starts", "starts that reach consensus on the axis"),
        Column("undecided", INT, "starts", "not reached, but nearer at the end than before"),
        Column("above_threshold", INT, "starts", "late |z^a| of all tokens above c_eff", True),
        Column("smallest_late", FLOAT, "-", "smallest late supremum of |z^a|, tokens and starts"),
        *(
            Column(f"slack_{name}", FLOAT, "-", f"smallest slack of {text}", nullable=True)
            for name, text in STATEMENTS.items()
        ),
        *(
            Column(f"violations_{name}", INT, "instances", f"1 if {text} does not hold")
            for name, text in STATEMENTS.items()
        ),
        Column("violations_theorem", INT, "starts", "above c_eff, and neither reached nor nearer"),
        Column("violations_certificate", INT, "starts", "above the bound of Theorem IV.1"),
        Column("radius_certified", FLOAT, "-", "radius of the first token's V", nullable=True),
        Column(
            "radius_simulated", FLOAT, "-", "largest V of all tokens tried that is drawn in", True
        ),
        Column("rate_certified", FLOAT, "1 / time", "of the last token's V", nullable=True),
        Column("rate_linear", FLOAT, "1 / time", "of the slowest V, linearised", nullable=True),
        Column("rate_measured", FLOAT, "1 / time", "of the slowest V, fitted, median", True),
        Column("t_star_q", INT, "steps", "T* of q, first token of the first start", nullable=True),
        Column("t_star_a", INT, "steps", "T* of a_c, the same", nullable=True),
        *HASHES,
    ),
    ("consensus/theory/consensus_instances",),
)
UNIT = ("kernel", "anisotropy", "instance", "silu")
