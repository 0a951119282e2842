"""GPT-2's tokenizer against known encodings; bytes."""

import functools
import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedscan.data.tokenizers import byte_values, gpt2

# Encodings of OpenAI's GPT-2 tokenizer.
GOLDEN = {
    "hello world": "31373 995",
    "Hello, world!": "15496 11 995 0",
    "\n\n": "628",
    "   x": "220 220 2124",
    "a    b\t\tc\n\n\n  d": "64 220 220 220 275 197 197 66 628 198 220 288",
    "def f(x):\n    return x**2\n": "4299 277 7 87 2599 198 220 220 220 1441 2124 1174 17 198",
    "日本語テキスト": "33768 98 17312 105 45739 252 24336 25084 43302",
    "x\r\ny\r\n": "87 201 198 88 201 198",
    "it's they'll I'VE don't": "270 338 484 1183 314 6 6089 836 470",
    "naïve café — “quotes”": "2616 38776 40304 851 564 250 421 6421 447 251",
    " gazed": "50255",
    "\x00\x01\x02": "188 189 190",
    "<|endoftext|>": "27 91 437 1659 5239 91 29",
    "": "",
}


@pytest.fixture(scope="module")
def tokenizer():
    return gpt2.load()


@pytest.mark.parametrize("text", GOLDEN)
def test_gpt2_golden_encodings(tokenizer, text):
    found = tokenizer.encode(text)
    assert found.dtype == np.uint16
    assert " ".join(map(str, found)) == GOLDEN[text]
    assert tokenizer.decode(found) == text


def test_gpt2_size_and_end_of_sequence(tokenizer):
    assert (tokenizer.vocab_size, tokenizer.eos) == (50257, 50256)


def test_gpt2_refuses_other_files(tmp_path):
    with pytest.raises(ValueError, match=r"encoder\.json does not exist"):
        gpt2.load(tmp_path)
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_text("{}")
    expected = hashlib.sha256(b"{}").hexdigest()
    with pytest.raises(ValueError, match=f"sha256 {expected}, expected 196139668"):
        gpt2.load(tmp_path)


def test_gpt2_names_pointers(tmp_path):
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ValueError, match=r"encoder\.json: a Git LFS pointer.*git lfs pull"):
        gpt2.load(tmp_path)


@given(st.text())
def test_bytes_round_trip(text):
    tokenizer = byte_values.load()
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return
    ids = tokenizer.encode(text)
    assert bytes(ids.astype(np.uint8)) == encoded
    assert tokenizer.decode(np.append(ids, tokenizer.eos)) == text
    assert ids.max(initial=0) < tokenizer.eos == 256 < tokenizer.vocab_size


LONG = {
    "blanks": " " * 1_000_000 + "a",
    "newlines": "\n" * 1_000_000 + "a",
    "mixed": " \n\t\u00a0" * 250_000 + "a",
    "blanks at the end": "a" + " " * 1_000_000,
    "two runs": "a" + " " * 600_000 + "b" + "\r\n" * 300_000 + "c",
    "letters": "ab" * 500_000,
    "marks": "=" * 1_000_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_gpt2_takes_long_runs(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert (tokenizer.head(text, 1000) == ids[:1000]).all()


def test_gpt2_long_runs_have_the_tokens_of_short_ones(tokenizer, monkeypatch):
    texts = ["a" + " " * n + "b\n" + "\n \n" * n + "\u2003" * n + "c" for n in range(1, 60)]
    whole = [tokenizer.encode(text) for text in texts]
    short = re.compile(gpt2.LONG_SPACE.pattern.replace(str(gpt2.LONG_RUN), "2"))
    monkeypatch.setattr(gpt2, "LONG_SPACE", short)
    monkeypatch.setattr(gpt2, "LONG_RUN", 2)
    for text, ids in zip(texts, whole, strict=True):
        assert short.search(text)
        assert tokenizer.encode(text).tolist() == ids.tolist()


ALPHABET = "a Z7'sll \n\t\r\u00a0\u2003\u001c\u3042漢é.,、。!-_=\U0001f600"


@given(st.text(ALPHABET, max_size=200) | st.text(max_size=200), st.integers(1, 60))
def test_the_head_is_that_of_the_whole(text, count):
    tokenizers = [byte_values.load(), gpt2_once()]
    text = text.encode("utf-8", "replace").decode()
    for tokenizer in tokenizers:
        with pytest.MonkeyPatch.context() as patch:
            # Every boundary is tried, and pieces of a character or two.
            patch.setattr(gpt2, "FIRST_LOOK", 1)
            assert tokenizer.head(text, count).tolist() == tokenizer.encode(text)[:count].tolist()


def test_the_head_of_a_long_text_takes_no_longer_than_that_of_a_short_one(tokenizer):
    looked = []

    def counted(text):
        looked.append(len(text))
        return tokenizer.encode(text)

    gpt2._head("word " * 1_000_000, 100, 128, counted)
    gpt2._head("a" * 5_000_000, 100, 128, counted)
    assert max(looked) < 20_000


@functools.cache
def gpt2_once():
    return gpt2.load()
