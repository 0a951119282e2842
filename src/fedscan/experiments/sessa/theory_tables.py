"""Tables of what the paper claims, on random instances and constructed models."""

from fedscan.io.tables import FLAG, FLOAT, INT, TEXT, Column, Table
from fedscan.pipeline.tables import HASHES

CLAIMS = Table(
    "sessa_claims",
    (
        Column("group", TEXT, "-", "what is computed together"),
        Column("claim", TEXT, "-", "short name"),
        Column("source", TEXT, "-", "place in the paper; 'ours' if it is not there"),
        Column("instance", TEXT, "JSON", "parameters of the instance"),
        Column(
            "kind", TEXT, "-",
            "'bound': at most; 'identity': equal within rounding; 'limit': near what it tends to",
        ),
        Column("measured", FLOAT, "-", "left-hand side, or the largest difference"),
        Column("bound", FLOAT, "-", "right-hand side, or what rounding allows"),
        Column("ratio", FLOAT, "-", "measured / bound"),
        Column("applicable", FLAG, "-", "whether its conditions hold; if not, nothing is claimed"),
        Column("violated", FLAG, "-", "whether it applies and does not hold"),
        *HASHES,
    ),
    ("sessa/theory/sessa_claims",),
)  # fmt: skip

RETRIEVAL = Table(
    "sessa_retrieval",
    (
        Column("group", TEXT, "-", "what is computed together"),
        Column("level", TEXT, "-", "'kernel', or 'weights' of constructed layers"),
        Column("beta", FLOAT, "-", "decay exponent"),
        Column("layers", INT, "-", "macro-layers k"),
        Column("horizon", INT, "tokens", "largest lag H"),
        Column("source", INT, "-", "position that is retrieved"),
        Column("lag", INT, "tokens", "from the source"),
        Column("score", FLOAT, "-", "of the source"),
        Column("competitors", FLOAT, "-", "sum of |score| of other earlier positions"),
        Column("margin", FLOAT, "-", "score less competitors"),
    ),
    ("sessa/theory/sessa_retrieval",),
)
