"""What a job keeps of earlier rows, and what it does not."""

import pytest

from fedscan.io.tables import INT, TEXT, Column, Table
from fedscan.pipeline.kept_rows import KeptRows
from tests.jobs import silent

NAME, HASHES = Column("name", TEXT, "-", "key"), [
    Column(f"{what}_hash", TEXT, "-", what) for what in ("config", "code")
]  # fmt: skip
MAIN = Table("main", (NAME, Column("x", INT, "-", "x"), *HASHES))
PARTS = Table("parts", (NAME, Column("part", INT, "-", "part")))
APART = Table("apart", (Column("y", INT, "-", "y"),))
IDENTITY = {"config_hash": "c", "code_hash": "k"}


def rows(name, parts=2, **changes):
    return {
        "main": [{"name": name, "x": 1, **IDENTITY, **changes}],
        "parts": [{"name": name, "part": part} for part in range(parts)],
        "apart": [],
    }


def store(folder, **more):
    return KeptRows(folder, [MAIN, PARTS, APART], ["name"], more.pop("code", True), silent, **more)


@pytest.fixture
def written(tmp_path):
    kept = store(tmp_path)
    for name in ("a", "b"):
        kept.put((name,), rows(name))
    kept.write([("b",), ("a",)], {})
    return tmp_path


def test_units_come_back_with_all_their_rows(written):
    found = store(written).get(("a",), IDENTITY)
    assert found == rows("a")
    assert store(written).get(("z",), IDENTITY) is None


@pytest.mark.parametrize(
    ("identity", "code_counts", "kept"),
    [
        ({"config_hash": "other"}, True, False),
        ({"code_hash": "other"}, True, False),
        ({"code_hash": "other"}, False, True),
        ({}, True, True),
    ],
)
def test_hashes_decide(written, identity, code_counts, kept):
    found = store(written, code=code_counts).get(("a",), IDENTITY | identity)
    assert (found is not None) == kept


def test_what_does_not_hold_is_not_kept(written):
    assert store(written, holds=lambda unit: False).get(("a",), IDENTITY) is None


def test_a_damaged_or_lost_table_keeps_nothing_and_says_so(written):
    lines = []

    def report(text):
        lines.append(text)

    (written / "parts.parquet").write_bytes(b"PAR1")
    kept = KeptRows(written, [MAIN, PARTS], ["name"], True, report)
    assert kept.get(("a",), IDENTITY) is None
    assert "earlier results are not usable" in lines[0]
    (written / "parts.parquet").unlink()
    assert store(written).get(("a",), IDENTITY) is None


def test_progress_survives_a_kill_and_goes_with_the_tables(tmp_path):
    file = tmp_path / "unfinished/rows.json"
    store(tmp_path, progress=file).put(("a",), rows("a"))
    again = store(tmp_path, progress=file)
    assert again.get(("a",), IDENTITY) == rows("a")
    file.write_text("[[")
    assert store(tmp_path, progress=file).get(("a",), IDENTITY) is None
    again.write([("a",)], {})
    assert not file.exists()


def test_the_first_table_is_written_last(tmp_path, monkeypatch):
    from fedscan.pipeline import kept_rows

    order = []
    monkeypatch.setattr(kept_rows.parquet, "write", lambda path, *_: order.append(path.stem))
    kept = store(tmp_path)
    kept.put(("a",), rows("a"))
    kept.write([("a",)], {})
    assert order == ["apart", "parts", "main"]
