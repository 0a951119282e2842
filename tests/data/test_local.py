"""Local files: every kind of container, every kind of damage."""

import gzip
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from fedscan.data.records import (
    EMPTY_TEXT,
    KEPT,
    NO_DOMAIN,
    NO_TEXT,
    UNKNOWN_DOMAIN,
    UNUSED_DOMAIN,
)
from fedscan.data.sources import local

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def line(text="some text", meta="RedPajamaC4", **extra):
    meta = {"redpajama_set_name": meta} if isinstance(meta, str) else meta
    return json.dumps({"text": text, "meta": meta, **extra})


def read(path):
    return list(local.records([], 0, paths=[str(path)]))


def outcomes(path):
    return [record.outcome for record in read(path)]


def write(path, *lines, end="\n"):
    path.write_bytes((end.join(lines) + end).encode("utf-8"))
    return path


def test_containers_and_folders(tmp_path):
    content = "\n".join([line("one"), line("two", "RedPajamaGithub")]).encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(content) + gzip.compress(b"\n" + content))
    packed = zstandard.ZstdCompressor().compress(content + b"\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.jsonl.zst").write_bytes(packed + packed)
    rows = [{"text": "five", "meta": {"redpajama_set_name": "RedPajamaArXiv"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    (tmp_path / "README.md").write_text("not data")
    found = read(tmp_path)
    assert [r.text for r in found] == ["one", "two"] * 3 + ["five"] + ["one", "two"] * 2
    assert [r.text for r in read(tmp_path / "**" / "*.zst")] == ["one", "two"] * 2
    assert {r.domain for r in found} == {"c4", "github", "arxiv"}


def test_drops_are_classified(tmp_path):
    file = write(
        tmp_path / "x.jsonl",
        line(""),
        line("\n"),
        line(None),
        json.dumps({"meta": {"redpajama_set_name": "RedPajamaC4"}}),
        json.dumps({"text": "x"}),
        line(meta=None),
        line(meta={}),
        line(meta="RedPajamaBook"),
        line(meta="RedPajamaMystery"),
        line(),
    )
    assert outcomes(file) == [
        *[EMPTY_TEXT] * 2,
        *[NO_TEXT] * 2,
        *[NO_DOMAIN] * 3,
        UNUSED_DOMAIN,
        UNKNOWN_DOMAIN,
        KEPT,
    ]


def test_what_is_unusual_but_fine(tmp_path):
    file = tmp_path / "x.jsonl"
    content = [
        "\ufeff" + line("bom"),
        "",
        line("extra", other=[1, {"a": None}, float("nan"), 10**4000], more="9" * 5000).replace(
            '"' + "9" * 5000 + '"', "9" * 5000
        ),
        line("u\u2028v\u0000w"),
        '{"text": "a\\ud83d", "meta": "{\\"redpajama_set_name\\": \\"RedPajamaC4\\"}"}',
        line("m" * 3_000_000),
        '{"text": "x", "n": 1, "n": 2, "meta": {"redpajama_set_name": "RedPajamaC4"}}',
    ]
    file.write_bytes("\r\n".join(content).encode())
    texts = [record.text for record in read(file)]
    assert texts[:4] == ["bom", "extra", "u\u2028v\u0000w", "a\ufffd"]
    assert len(texts[4]) == 3_000_000
    assert texts[5] == "x"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"text": "x", "meta":', "not valid JSON"),
        ("[1]", "expected a JSON object, found list"),
        ("[", "not valid JSON (Expecting value: line 1 column 2 (char 1)); a line is one object"),
        (line() + line(), "a line is one object"),
        (line(5), "text must be a string, found int"),
        (line(meta=["c4"]), "meta must be an object, found list"),
        (json.dumps({"text": "x", "meta": "c4"}), "meta is text but not JSON"),
        (line(meta={"redpajama_set_name": 3}), "redpajama_set_name must be a string, found int"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "a", "text": "b", "meta": null}', "key 'text' stands 2 times in one object"),
        ('{"text": "a", "meta": {}, "meta": null}', "key 'meta' stands 2 times"),
    ],
)
def test_malformed_lines_are_named(tmp_path, bad, words):
    file = write(tmp_path / "x.jsonl", line(), line(), bad, line())
    records = local.records([], 0, paths=[str(file)])
    assert next(records).outcome == next(records).outcome == KEPT
    with pytest.raises(ValueError, match=r"x\.jsonl:3: ") as error:
        next(records)
    assert words in str(error.value)


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(line().encode() + b"\n" + line("caf@").encode().replace(b"@", b"\xe9"))
    with pytest.raises(ValueError, match=r"x\.jsonl:2: not UTF-8"):
        read(file)


def compressed(rows):
    # Incompressible text, so that the frame has several blocks.
    text = "\n".join(
        line(str(zstandard.ZstdCompressor().compress(bytes([i % 251] * i)))[:900])
        for i in range(rows)
    )
    return zstandard.ZstdCompressor(level=1).compress(text.encode())


@pytest.mark.parametrize("keep", [0.3, 0.999])
def test_truncated_zstd_is_detected(tmp_path, keep):
    data = compressed(3000)
    file = tmp_path / "x.jsonl.zst"
    file.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(ValueError, match=r"x\.jsonl\.zst"):
        read(file)


def test_zstd_cut_at_a_block_boundary_is_detected(tmp_path):
    # Flushed blocks, no end of frame: bulk readers return these rows without a word.
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress((line() + "\n").encode() * 1000)
    data += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    file = tmp_path / "x.jsonl.zst"
    file.write_bytes(data)
    with pytest.raises(ValueError, match="truncated: its last zstd frame is not finished"):
        read(file)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl.gz", gzip.compress(b"{}" * 9999, mtime=0)[:-9], "truncated"),
        ("x.jsonl.gz", b"plain", "not valid gzip"),
        ("x.jsonl.gz", gzip.compress(b"", mtime=0) + b"garbage", "not valid gzip"),
        ("x.jsonl", "{}".encode("utf-16"), "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8"),
        ("x.jsonl", "{}".encode("utf-32"), "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8"),
        ("x.jsonl.gz", b"", "truncated: it is empty"),
        ("x.jsonl.zst", b"", "truncated: it is empty"),
        ("x.jsonl", gzip.compress(b"{}", mtime=0), "gzip data; its name should end in .gz"),
        ("x.jsonl", zstandard.compress(b"{}"), "zstd data; its name should end in .zst"),
        ("x.jsonl.gz", zstandard.compress(b"{}"), "zstd data; its name should end in .zst"),
        ("x.jsonl", b"PAR1garbage", "a Parquet file; its name should end in .parquet"),
        ("x.jsonl.gz", POINTER, "git lfs pull"),
        ("x.jsonl", POINTER, "git lfs pull"),
        ("x.parquet", POINTER, "git lfs pull"),
        ("x.jsonl.zst", b"plain text", "not valid zstd"),
        ("x.jsonl.zst", POINTER, "git lfs pull"),
        ("x.parquet", b"PAR1garbage", "not a whole Parquet file"),
        ("x.txt", b"text", "no file has a name fedscan reads"),
    ],
)
def test_damaged_files(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")) as error:
        read(file)
    assert words in str(error.value)


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"")
    assert read(tmp_path) == []


def test_padding_and_frames_of_any_window_are_read(tmp_path):
    content = (line() + "\n").encode()
    padded = gzip.compress(content) + bytes(100) + gzip.compress(content) + bytes(512)
    (tmp_path / "a.jsonl.gz").write_bytes(padded)
    parameters = zstandard.ZstdCompressionParameters(
        window_log=28, hash_log=10, chain_log=10, enable_ldm=False
    )
    # A streamed frame names its window, not its size; 2^27 is what readers take by default.
    long = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    frame = long.compress(content) + long.flush()
    (tmp_path / "b.jsonl.zst").write_bytes(skippable + frame + skippable + frame)
    assert outcomes(tmp_path) == [KEPT] * 4


def test_names_that_begin_with_a_dot_or_underscore_are_left_out_below_a_folder(tmp_path):
    hidden = [
        ".ipynb_checkpoints/a-checkpoint.jsonl", "sub/._a.jsonl", "_temporary/0/a.jsonl",
        "sub/_a.parquet", ".cache/x/a.jsonl.gz",
    ]  # fmt: skip
    for name in ["a.jsonl", "sub/b_.jsonl", *hidden, ".git/config"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    def names(*paths):
        found = local.search([f"{tmp_path}/{path}" for path in paths])
        return [
            sorted(str(file.relative_to(tmp_path)) for file in part)
            for part in (found.files, found.left_out)
        ]

    visible = ["a.jsonl", "sub/b_.jsonl"]
    assert names("") == [visible, sorted(hidden)]
    assert names("**") == [visible, sorted(hidden)]
    assert names("sub/*") == [["sub/b_.jsonl"], ["sub/._a.jsonl", "sub/_a.parquet"]]
    # A folder with the name of a file, as distributed writers make.
    for name in ("x.parquet/part-0.parquet", "x.parquet/_part-1.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    assert names("*.parquet") == [["x.parquet/part-0.parquet"], ["x.parquet/_part-1.parquet"]]
    # Named directly they are read: a file, a folder, a pattern that begins so.
    assert names("sub/._a.jsonl") == [["sub/._a.jsonl"], []]
    assert names("_temporary") == [["_temporary/0/a.jsonl"], []]
    assert names("_temporary/*/*")[0] == ["_temporary/0/a.jsonl"]
    assert names("sub/_*.parquet")[0] == ["sub/_a.parquet"]
    # Also those that another path leaves out.
    assert names("sub", "sub/._a.jsonl") == [["sub/._a.jsonl", "sub/b_.jsonl"], ["sub/_a.parquet"]]
    (tmp_path / "only").mkdir()
    (tmp_path / "only/_a.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"only.: all 1 data files have a name that begins with"):
        names("only")


def test_a_long_line_takes_linear_time(monkeypatch):
    content = line("m" * 20_000_000).encode() + b"\n" + line("n").encode()
    parts = [content[i : i + 1000] for i in range(0, len(content), 1000)]
    monkeypatch.setattr(local, "blocks", lambda file: iter(parts))
    start = time.process_time()
    assert [len(record.text) for record in local._lines("x.jsonl")] == [20_000_000, 1]
    assert time.process_time() - start < 10  # 0.1 s; joined at every block a minute


def test_every_record_says_where_it_stands(tmp_path):
    file = write(tmp_path / "x.jsonl", line(), "", line())
    assert [record.place for record in read(file)] == [f"{file}:1", f"{file}:3"]
    rows = [{"text": "five", "meta": "{}"}] * 2
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    places = [record.place for record in read(tmp_path / "x.parquet")]
    assert places == [f"{tmp_path}/x.parquet: row 1", f"{tmp_path}/x.parquet: row 2"]


def test_paths_that_match_nothing():
    with pytest.raises(ValueError, match="'nowhere/\\*': no file exists"):
        local.find_files(["nowhere/*"])


def test_a_file_under_two_names_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.jsonl").write_bytes(b"")
    (tmp_path / "d/b.jsonl").symlink_to("a.jsonl")
    paths = ["d", "d/a.jsonl", "d/../d/a.jsonl", str(tmp_path / "d/*.jsonl")]
    for path in paths:
        assert len(local.find_files([path])) == 1
    assert len(local.find_files(paths)) == 1


@pytest.mark.parametrize("path", ["", "~nobody-of-this-name/x"])
def test_paths_that_name_no_folder(path):
    with pytest.raises(ValueError, match=r"^data.local.paths: "):
        local.find_files([path])


def test_parquet_columns_and_rows_are_named(tmp_path):
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"content": ["a"]}), file)
    with pytest.raises(ValueError, match="no column 'meta'; its columns: content"):
        read(file)
    pq.write_table(pa.table({"text": ["a", "b"], "meta": ["null", "oops"]}), file)
    with pytest.raises(ValueError, match="row 2: meta is text but not JSON"):
        read(file)


def test_a_frame_that_needs_a_dictionary_is_named(tmp_path):
    samples = [f"document {i} about state spaces ".encode() * 20 for i in range(2000)]
    dictionary = zstandard.train_dictionary(2048, samples)
    line = json.dumps({"text": "a document", "meta": {"redpajama_set_name": "RedPajamaC4"}})
    file = tmp_path / "a.jsonl.zst"
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    file.write_bytes(compressor.compress(f"{line}\n".encode() * 50))
    with pytest.raises(ValueError, match=r"a\.jsonl\.zst.*[dD]ictionary"):
        list(local.records([], 0, paths=[str(file)]))
