"""Tokenizers: name -> loader taking the tokenizer's own configuration keys."""

from collections.abc import Callable

from fedscan.data.tokenizer import Tokenizer
from fedscan.data.tokenizers import byte_values, gpt2

TOKENIZERS: dict[str, Callable[..., Tokenizer]] = {"bytes": byte_values.load, "gpt2": gpt2.load}
