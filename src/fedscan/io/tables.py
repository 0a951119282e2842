"""What a column of a declared table is."""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table."""

    name: str
    dtype: pa.DataType
    unit: str
    meaning: str
    nullable: bool = False


TEXT, INT, FLOAT, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
