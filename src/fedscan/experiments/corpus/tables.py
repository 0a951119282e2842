"""Tables of documents, tokens and partitions."""

from fedscan.io.tables import FLOAT, INT, TEXT, TOKENS16, Column, Table

PARTITION_FOLDER = "partition/setting=*/beta=*/clients=*"

DOCUMENTS = Table(
    "documents",
    (
        Column("domain", TEXT, "-", "text domain; '' for records without a usable one"),
        Column("outcome", TEXT, "-", "'kept' or the reason why records were dropped"),
        Column("records", INT, "records", "number of records"),
    ),
    ("tokens/documents",),
)

TOKENS = Table(
    "tokens",
    (
        Column("sequence", INT, "-", "index within the domain and split, in packing order"),
        Column("input_ids", TOKENS16, "token ids", "one packed sequence"),
    ),
    (
        "tokens/domain=*/train",
        "tokens/domain=*/validation",
    ),
)

PARTITION = Table(
    "partition",
    (
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
    ),
    (f"{PARTITION_FOLDER}/partition",),
)

SEQUENCES = Table(
    "sequences",
    (
        Column("client", INT, "-", "client that holds the sequence"),
        Column("domain", TEXT, "-", "domain of the sequence"),
        Column("sequence", INT, "-", "index within the domain and split: no two clients share one"),
        Column("input_ids", TOKENS16, "token ids", "one packed sequence"),
    ),
    (
        f"{PARTITION_FOLDER}/train",
        f"{PARTITION_FOLDER}/validation",
    ),
)
