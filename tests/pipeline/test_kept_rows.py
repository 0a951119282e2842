"""What a job keeps of earlier rows, and what it does not."""

import pytest

from fedscan.io.tables import INT, TEXT, Column, Table
from fedscan.pipeline import kept_rows
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
    folder = tmp_path / "unfinished/rows"
    kept = store(tmp_path, progress=folder)
    for name in ("a", "b"):
        kept.put((name,), rows(name))
    again = store(tmp_path, progress=folder)
    assert again.get(("a",), IDENTITY) == rows("a")
    assert again.get(("b",), IDENTITY) == rows("b")
    again.write([("a",), ("b",)], {})
    assert not folder.exists()


def test_a_damaged_file_of_progress_costs_its_unit_alone(tmp_path):
    folder, lines = tmp_path / "unfinished/rows", []
    kept = store(tmp_path, progress=folder)
    kept.put(("a",), rows("a"))
    (damaged,) = folder.iterdir()
    kept.put(("b",), rows("b"))
    damaged.write_text('{"unit": ["a"], "ro')
    again = KeptRows(tmp_path, [MAIN, PARTS, APART], ["name"], True, lines.append, progress=folder)
    assert again.get(("a",), IDENTITY) is None
    assert again.get(("b",), IDENTITY) == rows("b")
    assert "is damaged" in lines[0]


@pytest.mark.parametrize("name", ["rows", "rows.json"])
def test_progress_of_an_earlier_version_is_dropped(tmp_path, name):
    folder, lines = tmp_path / "rows", []
    (tmp_path / name).write_text("[]")
    kept = KeptRows(tmp_path, [MAIN, PARTS, APART], ["name"], True, lines.append, progress=folder)
    assert lines == [f"starting over: {tmp_path / name} is an earlier version's; removed"]
    assert not (tmp_path / name).exists()
    kept.put(("a",), rows("a"))
    assert store(tmp_path, progress=folder).get(("a",), IDENTITY) == rows("a")


def test_a_unit_writes_its_own_rows_alone(tmp_path, monkeypatch):
    kept, written = store(tmp_path, progress=tmp_path / "rows"), []
    real = kept_rows.atomic.write_text

    def write_text(path, text):
        written.append(len(text))
        real(path, text)

    monkeypatch.setattr(kept_rows.atomic, "write_text", write_text)
    for index in range(5):
        kept.put((f"{index}",), rows(f"{index}"))
    assert len(set(written)) == 1  # not growing with the units before
    assert len(list((tmp_path / "rows").iterdir())) == 5


def test_numbers_that_are_none_survive(tmp_path):
    folder = tmp_path / "rows"
    found = {"main": [{"name": "a", "value": float("inf")}, {"name": "a", "value": float("nan")}]}
    store(tmp_path, progress=folder).put(("a",), found)
    (reader,) = store(tmp_path, progress=folder)._units.values()
    first, second = reader()["main"]
    assert first["value"] == float("inf")
    assert second["value"] != second["value"]


def test_the_first_table_is_written_last(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(kept_rows.parquet, "write", lambda path, *_: order.append(path.stem))
    kept = store(tmp_path)
    kept.put(("a",), rows("a"))
    kept.write([("a",)], {})
    assert order == ["apart", "parts", "main"]


def test_many_rows_are_written_in_parts_with_the_same_bytes(tmp_path, monkeypatch):
    from fedscan.pipeline import kept_rows

    files = {}
    for at_once in (1, 3, 20_000):
        monkeypatch.setattr(kept_rows, "AT_ONCE", at_once)
        folder = tmp_path / str(at_once)
        kept = store(folder, progress=folder / "rows")
        for name in "abcde":
            kept.put((name,), rows(name))
        kept.write([(name,) for name in "edcba"], {"x": 1})
        files[at_once] = {p.name: p.read_bytes() for p in folder.glob("*.parquet")}
    assert files[1] == files[3] == files[20_000]
    # And read back in whatever order they are asked for.
    again = store(tmp_path / "1")
    for name in "abcde":
        assert again.get((name,), IDENTITY) is not None
