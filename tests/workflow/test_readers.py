"""Every table of a finished run opens in every reader that the documents name."""

import pyarrow.parquet as pq
import pytest

from tests.io.test_readers import READERS


@pytest.mark.parametrize("reader", READERS)
def test_every_table_of_a_run_opens(finished, reader):
    files = sorted((finished.folder / "results").rglob("*.parquet"))
    rows = {file: pq.read_metadata(file).num_rows for file in files}
    assert 0 in rows.values()
    for file, count in rows.items():
        found, columns = READERS[reader](file)
        assert (found, columns) == (count, pq.read_schema(file).names), file
