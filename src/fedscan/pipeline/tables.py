"""Tables that several experiments write, and columns that many tables have."""

from fedscan.io.tables import FLAG, FLOAT, FLOATS64, TEXT, TOKENS8, Column, Table

HASHES = (
    Column("config_hash", TEXT, "-", "hash of every value and file the row depends on"),
    Column("code_hash", TEXT, "-", "fingerprint of the code that made the row"),
)

STATUS = (
    Column("status", TEXT, "-", "'completed' or 'failed'"),
    Column("failure", TEXT, "-", "what became non-finite, where", nullable=True),
)

NUMBERS = Table(
    "numbers",
    (
        Column("table", TEXT, "-", "table or figure of the paper, or a name of ours"),
        Column("row", TEXT, "-", "row of that table"),
        Column("quantity", TEXT, "-", "column of that table"),
        Column("value", FLOAT, "as named", "this run's number", nullable=True),
        Column("low", FLOAT, "as named", "lower end of the 95% interval", nullable=True),
        Column("high", FLOAT, "as named", "upper end", nullable=True),
        Column("paper", FLOAT, "as named", "the paper's number", nullable=True),
        Column("difference", FLOAT, "as named", "value - paper", nullable=True),
        Column("note", TEXT, "-", "what differs, or whose the number is"),
    ),
)

VIOLATIONS = Table(
    "violations",
    (
        Column("check", TEXT, "-", "inequality that failed"),
        Column("subject", TEXT, "JSON", "where: rho, seed, checkpoint, ..."),
        Column("measured", FLOAT, "-", "left-hand side"),
        Column("bound", FLOAT, "-", "right-hand side"),
        Column("parameters", FLOATS64, "-", "W_delta, W_B, W_C, A per layer, rows first"),
        Column("tokens", TOKENS8, "token ids", "the sequence; empty if the check has none"),
    ),
)

CHECKS = Table(
    "checks",
    (
        Column("check", TEXT, "-", "what is checked"),
        Column("subject", TEXT, "-", "file or job"),
        Column("passed", FLAG, "-", "outcome"),
        Column("detail", TEXT, "-", "what was found"),
    ),
    ("check/checks",),
)
