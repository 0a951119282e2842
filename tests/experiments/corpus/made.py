"""Sources of text in miniature."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedscan.experiments.corpus.sequences import to_matrix
from fedscan.experiments.registry import tables
from fedscan.io import parquet
from tests.experiments import tiny

TABLES = tables()


def digest(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()
    }


def local_settings(paths, **partition_keys):
    data = tiny.DATA | {"source": "local", "local": {"paths": paths}}
    sizes = tiny.TOKENS["partition"] | partition_keys
    return tiny.TOKENS | {"data": data, "partition": sizes}


def shared_text(folder, count=40):
    """Documents of their own, as many that stand in both domains, and a hidden copy of all."""
    rows = [
        {"text": text, "meta": {"redpajama_set_name": name}}
        for i in range(count)
        for name in ("RedPajamaArXiv", "RedPajamaGithub")
        for text in (f"{name} {i} own words " * 4, f"shared {i} words of text " * 4)
    ]
    (folder / ".ipynb_checkpoints").mkdir(parents=True)
    for name in ("a.jsonl", ".ipynb_checkpoints/a-checkpoint.jsonl"):
        (folder / name).write_text("\n".join(json.dumps(row) for row in rows))
    return str(folder)


def documents_of(folder):
    """Split -> texts that training or validation sequences were cut from, per domain."""
    ids = {
        (domain, split): to_matrix(
            parquet.read(Path(folder, f"domain={domain}/{split}.parquet"), TABLES["tokens"]), folder
        ).ravel()
        for domain in ("arxiv", "github")
        for split in ("train", "validation")
    }
    texts = {key: "".join(map(chr, found)).split(chr(256))[1:-1] for key, found in ids.items()}
    return {key: set(found) for key, found in texts.items()}


def hub_folder(folder, records, shards=3):
    """A folder laid out like a dataset of the hub: Parquet shards below data/."""
    (folder / "data").mkdir(parents=True)
    for shard in range(shards):
        rows = records[shard::shards]
        name = folder / f"data/train-{shard:05d}-of-{shards:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), name, row_group_size=100)
    return str(folder)


def hub_settings(repo):
    data = tiny.DATA | {
        "source": "huggingface",
        "huggingface": {"repo": repo, "revision": None, "split": "train", "retries": 0},
    }
    return tiny.TOKENS | {"data": data}


def hub_records(count=900):
    names = ["RedPajamaArXiv", "RedPajamaGithub", "RedPajamaBook"]
    # Some texts are those of an earlier record, of another domain or the same one.
    return [
        {
            "text": f"record { {7: i // 10, 8: i - 6}.get(i % 10, i) } " * 3,
            "meta": {"redpajama_set_name": names[i % 3]},
        }
        for i in range(count)
    ]
