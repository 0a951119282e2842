"""Stage ``merging_base``: the model all specialists start from, in one format."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedscan.data.tokenizers import TOKENIZERS
from fedscan.experiments.comparison.models import best, read
from fedscan.experiments.merging.grid import FEDERATED
from fedscan.experiments.merging.tables import MERGING_BASE
from fedscan.io import parquet
from fedscan.io.digests import file_sha256
from fedscan.io.provenance import versions
from fedscan.models.architecture import Architecture, to_facts
from fedscan.params.algebra import Params
from fedscan.pipeline.errors import under_key
from fedscan.pipeline.model_files import DTYPES, WEIGHTS, from_pretrained, write_base
from fedscan.pipeline.stage import Job


class Base(NamedTuple):
    """A base model, and the run it comes from, if any."""

    shape: Architecture
    params: Params
    selected: str = ""
    val_ppl_last10: float | None = None


def run(job: Job) -> None:
    """Write a base as config.json and model.safetensors, and a table of its facts.

    Args:
        job: settings: ``origin`` ('federated', a folder or a hub id), ``precision``, the section
            ``tokenizer``, and for 'federated' the paths of the training ``jobs``. Its folder
            receives config.json, model.safetensors and base.parquet.

    Raises:
        ValueError: if there is no such model, or its vocabulary is smaller than the tokenizer's.
    """
    settings, folder, report = job.settings, job.folder, job.report
    origin, precision = settings["origin"], settings["precision"]
    if origin == FEDERATED:
        base = _best_federated(settings["jobs"], job.results / "federated", precision)
        report(f"best of the federated runs: {base.selected}, {base.val_ppl_last10:.3f}")
    else:
        with under_key(f"merging.bases (a folder, a hub id or {FEDERATED!r})"):
            base = Base(*from_pretrained(origin, precision))
    name = settings["tokenizer"]["name"]
    needed = TOKENIZERS[name](**settings["tokenizer"].get(name, {})).vocab_size
    rows = base.shape.padded_vocab_size
    if rows < needed:
        raise ValueError(
            f"{origin}: its embedding has {rows} rows; tokenizer {name!r} needs {needed}"
        )
    write_base(folder, base.shape, base.params)
    facts = {
        "source": FEDERATED if origin == FEDERATED else Path(origin).name,
        "selected": base.selected,
        "val_ppl_last10": base.val_ppl_last10,
        "parameters": sum(tensor.numel() for tensor in base.params.values()),
        "precision": precision,
        "tokenizer": name,
        "vocab_size": rows,
        "sha256": file_sha256(folder / WEIGHTS),
    }
    provenance = {"architecture": to_facts(base.shape), "versions": versions()}
    parquet.write(folder / "base.parquet", MERGING_BASE, [facts], provenance)
    report(f"{facts['parameters']:,} parameters")


def _best_federated(jobs: Sequence[str], folder: Path, precision: str) -> Base:
    """Return the global model with the lowest last-10 validation perplexity of all runs."""
    found = best(folder, jobs)
    kept = read(found.file, DTYPES[precision])
    return Base(kept.shape, kept.params, f"{found.job}/{found.value}", found.val_ppl_last10)
