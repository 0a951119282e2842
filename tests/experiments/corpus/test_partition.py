"""From packed sequences to clients' sets."""

import shutil
from pathlib import Path

import pytest

from fedscan.experiments.corpus import partition
from fedscan.io import parquet
from tests import jobs
from tests.experiments import tiny
from tests.experiments.corpus.made import TABLES


def test_partition_table_matches_the_sequences(prepared):
    table = parquet.read_frame(Path(prepared, "partition.parquet"), TABLES["partition"])
    assert table["count"].sum() == 80
    for split in ("train", "validation"):
        held = parquet.read(Path(prepared, f"{split}.parquet"), TABLES["sequences"]).to_pandas()
        counts = held.groupby(["client", "domain"]).size().to_dict()
        rows = table[table["split"] == split]
        assert counts == {
            (r.client, r.domain): r.count_
            for r in rows.rename(columns={"count": "count_"}).itertuples()
        }
        assert not held.duplicated(["domain", "sequence"]).any()


def test_a_damaged_token_table_stops_the_partition(prepared, tmp_path):
    shutil.copytree(Path(prepared, "../tokens"), tmp_path / "tokens")
    file = tmp_path / "tokens/domain=arxiv/train.parquet"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        jobs.run(partition, tiny.PARTITION, tmp_path / "out", tokens=tmp_path / "tokens")


@pytest.mark.parametrize("text", ['{"domains', "{}", '{"domains": {"arxiv": 3}}', "[]"])
def test_a_damaged_manifest_is_named(prepared, tmp_path, text):
    shutil.copytree(Path(prepared, "../tokens"), tmp_path / "tokens")
    (tmp_path / "tokens/manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"manifest\.json: damaged"):
        jobs.run(partition, tiny.PARTITION, tmp_path / "out", tokens=tmp_path / "tokens")


def test_a_token_table_shorter_than_the_manifest_says_is_named(prepared, tmp_path):
    shutil.copytree(Path(prepared, "../tokens"), tmp_path / "tokens")
    folder = tmp_path / "tokens/domain=arxiv"
    shutil.copy(folder / "validation.parquet", folder / "train.parquet")
    with pytest.raises(
        ValueError, match=r"domain=arxiv/train\.parquet: \d+ sequences, and clients"
    ):
        jobs.run(partition, tiny.PARTITION, tmp_path / "out", tokens=tmp_path / "tokens")
