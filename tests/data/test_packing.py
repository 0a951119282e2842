"""Packing: nothing padded, nothing shared between splits, exact shares."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedscan import seeds
from fedscan.data.packing import pack, pool_size, split_and_pack

EOS = 999


def docs(lengths):
    return [np.full(n, i, dtype=np.uint16) for i, n in enumerate(lengths)]


def test_pack_by_hand():
    found = pack(docs([3, 2, 4]), 4, EOS)
    # 0 0 0 | 1 1 | 2 2 2 2, each followed by EOS; 12 tokens, three sequences
    assert found.tolist() == [[0, 0, 0, EOS], [1, 1, EOS, 2], [2, 2, 2, EOS]]
    assert found.dtype == np.uint16


def test_the_tail_is_dropped():
    assert pack(docs([5]), 4, EOS).tolist() == [[0, 0, 0, 0]]
    assert pack([], 4, EOS).shape == (0, 4)


@given(
    lengths=st.lists(st.integers(0, 60), max_size=40),
    share=st.integers(1, 9).map(lambda n: Fraction(n, 10)),
    limit=st.integers(2, 50),
)
def test_no_document_is_on_both_sides_and_shares_are_exact(lengths, share, limit):
    packed = split_and_pack(docs(lengths), 8, EOS, share, limit, seeds.generator(0, "t"))
    train, validation = set(packed.train.flatten()), set(packed.validation.flatten())
    assert (train & validation) <= {EOS}
    pool = len(packed.train) + len(packed.validation)
    assert len(packed.train) == int(share * pool)
    assert pool <= limit


def test_enough_text_gives_the_whole_pool():
    packed = split_and_pack(docs([50] * 40), 8, EOS, Fraction(8, 10), 100, seeds.generator(0, "t"))
    assert (len(packed.train), len(packed.validation)) == (80, 20)


def test_validation_counts_the_end_of_every_document():
    # 20 documents of one token and its end: validation's 20 tokens are ten of them, not all.
    packed = split_and_pack(docs([1] * 20), 4, EOS, Fraction(1, 2), 10, seeds.generator(0, "t"))
    assert (len(packed.train), len(packed.validation)) == (5, 5)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9), st.integers(0, 40))
def test_pool_size_is_the_largest(train, validation, tenths, limit):
    share = Fraction(tenths, 10)

    def fits(p):
        return int(share * p) <= train and p - int(share * p) <= validation

    best = max(p for p in range(limit + 1) if fits(p))
    assert pool_size(train, validation, share, limit) == best
