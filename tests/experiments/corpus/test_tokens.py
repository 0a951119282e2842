"""From records to packed sequences: counts, drops, copies, interruptions."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedscan.data.sources import huggingface
from fedscan.experiments.corpus import tokens
from fedscan.experiments.corpus.sequences import read_clients, sequence_table, to_matrix
from fedscan.io import checkpoints, parquet
from tests import jobs
from tests.experiments import tiny
from tests.experiments.corpus.made import (
    TABLES,
    digest,
    documents_of,
    hub_folder,
    hub_records,
    hub_settings,
    local_settings,
    shared_text,
)


def test_same_configuration_same_bytes_anywhere(tmp_path):
    for name in ("here", "some where/else ö"):
        tiny.prepare(tmp_path / name)
    assert digest(tmp_path / "here") == digest(tmp_path / "some where/else ö")


def test_manifest_has_every_count(prepared):
    manifest = json.loads(Path(prepared, "../tokens/manifest.json").read_text())
    assert manifest["source"] == "synthetic"
    assert manifest["seed"] == 0
    assert len(manifest["tokenizer_sha256"]) == 64
    for domain in ("arxiv", "github"):
        counts = manifest["domains"][domain]
        assert (counts["train"], counts["validation"], counts["pool"]) == (32, 8, 40)
        assert counts["documents"] > 0
        assert counts["tokens"] >= 40 * 32 - counts["documents"]
        table = parquet.read(
            Path(prepared, f"../tokens/domain={domain}/train.parquet"), TABLES["tokens"]
        )
        assert table.num_rows == 32
    kept = sum(count for name, count in manifest["records"].items() if name.endswith("kept"))
    assert kept == sum(d["documents"] for d in manifest["domains"].values())
    nothing = {"arxiv": 0, "github": 0}
    assert manifest["duplicates"] == {"rule": "drop", "within": nothing, "across": nothing}
    assert manifest["files_left_out"] == 0


def test_parquet_is_readable_by_others_and_holds_uint16(prepared):
    schema = pq.read_schema(Path(prepared, "train.parquet"))
    assert str(schema.field("input_ids").type) == "list<element: uint16>"


def test_seed_changes_the_text_and_only_the_seed(tmp_path):
    other = tiny.TOKENS | {"data": tiny.DATA | {"seed": 1}}
    jobs.run(tokens, tiny.TOKENS, tmp_path / "a")
    jobs.run(tokens, other, tmp_path / "b")
    a, b = (json.loads((tmp_path / n / "manifest.json").read_text()) for n in "ab")
    assert a["domains"]["arxiv"]["train_sha256"] != b["domains"]["arxiv"]["train_sha256"]


def test_local_files_drops_counted_by_reason(tmp_path):
    rows = [
        {"text": f"{i} " + "words of text " * 20, "meta": {"redpajama_set_name": name}}
        for i in range(30)
        for name in ("RedPajamaArXiv", "RedPajamaGithub", "RedPajamaC4", "RedPajamaBook")
    ] + [{"text": "", "meta": {"redpajama_set_name": "RedPajamaArXiv"}}]
    file = tmp_path / "text.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    jobs.run(tokens, local_settings([str(file)]), tmp_path / "out")
    counts = {
        (r["domain"], r["outcome"]): r["records"]
        for r in parquet.read(tmp_path / "out/documents.parquet", TABLES["documents"]).to_pylist()
    }
    assert counts["arxiv", "kept"] == counts["github", "kept"]
    assert counts["c4", "dropped: domain not in any setting"] > 0
    assert counts["", "dropped: domain not used (RedPajamaBook)"] > 0
    manifest = (tmp_path / "out/manifest.json").read_text()
    assert json.loads(manifest)["files"] == [{"bytes": file.stat().st_size, "name": "text.jsonl"}]
    assert str(tmp_path) not in manifest
    assert str(tmp_path).encode() not in b"".join(digest(tmp_path / "out").values())


@pytest.mark.parametrize("rule", ["drop", "keep"])
def test_duplicates_are_counted_and_no_two_domains_or_splits_share_one(tmp_path, rule):
    settings = local_settings([shared_text(tmp_path / "in")], sequences_per_client=1000)
    settings["data"]["duplicates"] = rule
    jobs.run(tokens, settings, tmp_path / "out")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    found = manifest["duplicates"]
    assert found["rule"] == rule
    assert found["within"] == {"arxiv": 0, "github": 0}
    assert sum(found["across"].values()) == 40
    assert min(found["across"].values()) > 10
    assert manifest["files_left_out"] == 1
    sets = list(documents_of(tmp_path / "out").values())
    shared = [a & b for i, a in enumerate(sets) for b in sets[:i]]
    assert any(shared) == (rule == "keep")


def test_files_that_change_while_they_are_read_are_noticed(tmp_path, monkeypatch):
    folder = shared_text(tmp_path / "in")
    original = tokens.collect

    def meanwhile(*arguments, **keys):
        found = original(*arguments, **keys)
        with Path(folder, "a.jsonl").open("a") as stream:
            stream.write("\n")
        return found

    monkeypatch.setattr(tokens, "collect", meanwhile)
    with pytest.raises(ValueError, match="the data files changed while they were read"):
        jobs.run(tokens, local_settings([folder]), tmp_path / "out")


def test_too_little_text_names_domain_and_counts(tmp_path):
    file = tmp_path / "text.jsonl"
    file.write_text(json.dumps({"text": "short", "meta": {"redpajama_set_name": "RedPajamaArXiv"}}))
    with pytest.raises(ValueError, match="domain 'arxiv': 1 usable documents with 5 tokens"):
        jobs.run(tokens, local_settings([str(file)]), tmp_path / "out")


def test_sequences_are_validated_on_load(tmp_path):
    ids = np.full((3, 4), 300, dtype=np.uint16)
    columns = {"client": np.zeros(3, int), "domain": ["c4"] * 3, "sequence": np.arange(3)}
    table = sequence_table(ids, columns)
    path = tmp_path / "t.parquet"
    parquet.write(path, TABLES["sequences"], table, {})
    assert read_clients(path, 1, 301)[0].shape == (3, 4)
    with pytest.raises(ValueError, match="row 0: token id 300 is not below vocab_size 257"):
        read_clients(path, 1, 257)
    with pytest.raises(ValueError, match=r"expected sequences of clients 0\.\.1, none of \[1\]"):
        read_clients(path, 2, 301)
    with pytest.raises(ValueError, match="no sequences"):
        to_matrix(table.slice(0, 0), path)


def test_an_interrupted_preparation_goes_on_and_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "POSITION_EVERY", 20)
    settings = hub_settings(hub_folder(tmp_path / "hub", hub_records()))
    jobs.run(tokens, settings, tmp_path / "whole")
    copies = json.loads((tmp_path / "whole/manifest.json").read_text())["duplicates"]
    assert min(*copies["within"].values(), *copies["across"].values()) > 0
    original, calls = tokens.interrupted.store, []

    def interrupted(path, *rest):
        original(path, *rest)
        calls.append(path)
        if len(calls) % 2 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(tokens.interrupted, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(tokens, settings, tmp_path / "cut")
    lines = []
    monkeypatch.setattr(tokens.interrupted, "store", original)
    jobs.run(tokens, settings, tmp_path / "cut", report=lines.append)
    assert lines[0] == "going on after 40 records"
    assert digest(tmp_path / "cut") == digest(tmp_path / "whole")


def test_a_preparation_of_an_older_version_starts_over(tmp_path):
    path, lines = tmp_path / "x.safetensors", []
    checkpoints.save(path, {"c4/lengths": np.ones(1)}, {"identity": "i", "position": None})
    position, found = tokens.interrupted.restore(path, "i", ["c4"], lines.append)
    assert (position, found.documents) == (None, {"c4": []})
    assert lines == ["starting over: the interrupted preparation was made by another version"]


def test_a_preparation_of_another_configuration_starts_over(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "POSITION_EVERY", 20)
    settings = hub_settings(hub_folder(tmp_path / "hub", hub_records()))
    store = tokens.interrupted.store

    def interrupted(path, *rest):
        store(path, *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens.interrupted, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(tokens, settings, tmp_path / "out")
    monkeypatch.setattr(tokens.interrupted, "store", store)
    lines = []
    other = settings | {"data": settings["data"] | {"max_tokens_per_document": 20}}
    jobs.run(tokens, other, tmp_path / "out", report=lines.append)
    assert lines[0].startswith("starting over: the interrupted preparation")
