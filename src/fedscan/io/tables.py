"""What a declared table is: its columns, their types, units and meanings, and where it lies.

A table is an object of the room that writes it; ``io.parquet.write`` refuses anything else than its
columns. Keys that are part of a path (setting=1/depth=4/...) are not repeated as columns, so that
hive-style readers see one column of one type.
"""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table."""

    name: str
    dtype: pa.DataType
    unit: str
    meaning: str
    nullable: bool = False


class Table(NamedTuple):
    """A declared table.

    Attributes:
        name: kept in the files' metadata.
        columns: in the order they are written.
        places: the files that hold it, below results/ and without suffix; ``*`` for a key's value.
    """

    name: str
    columns: tuple[Column, ...]
    places: tuple[str, ...] = ()


TEXT, INT, FLOAT, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
FLOATS32, FLOATS64 = pa.list_(pa.float32()), pa.list_(pa.float64())
TOKENS8, TOKENS16 = pa.list_(pa.uint8()), pa.list_(pa.uint16())


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table.

    Args:
        table: its declaration.

    Returns:
        Fields in the declared order.
    """
    return pa.schema([pa.field(c.name, c.dtype, nullable=c.nullable) for c in table.columns])
