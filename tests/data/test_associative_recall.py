"""Diffuse recall: lags in range, noise that shares prefixes and no key, exact baselines."""

import numpy as np
import pytest

from fedscan.data import associative_recall as recall
from fedscan.data.associative_recall import BOS, KEY, NOISE, QUERY, VAL, Recall, sequence

SIZES = [
    Recall(3, 3, 2, 1, 8, 8, 0.5),
    Recall(5, 2, 3, 2, 6, 9, 0.8),
    Recall(2, 1, 2, 3, 4, 4, 0.0),
]


def drawn(sizes, count=60, low=40, high=90):
    stream = np.random.default_rng(0)
    return [sequence(sizes, low, high, stream) for _ in range(count)]


def parsed(sizes, tokens):
    """Stored pairs, noise, queries, read from the tokens alone."""
    tokens = tokens.tolist()
    m, w = sizes.key_tokens, sizes.width
    noise, query = tokens.index(NOISE), tokens.index(QUERY)
    pairs = [tokens[at : at + w] for at in range(1, noise, w)]
    queries = [tokens[at : at + w] for at in range(query + 1, len(tokens), w)]
    for pair in (*pairs, *queries):
        assert pair[0] == KEY
        assert pair[m + 1] == VAL
    return pairs, tokens[noise + 1 : query], queries


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sequences_are_what_they_are_said_to_be(sizes):
    for found in drawn(sizes):
        pairs, noise, queries = parsed(sizes, found.tokens)
        m = sizes.key_tokens
        keys = [tuple(pair[1 : m + 1]) for pair in pairs]
        assert len(set(keys)) == sizes.pairs
        asked = [tuple(query[1 : m + 1]) for query in queries]
        assert len(set(asked)) == sizes.queries
        for query, key in zip(queries, asked, strict=True):
            assert query == pairs[keys.index(key)]
        assert all((found.tokens == mark).sum() == 1 for mark in (BOS, NOISE, QUERY))
        assert found.tokens.max() < sizes.vocabulary
        # Keys in the noise share a prefix with a stored one, and none is stored.
        for at, token in enumerate(noise):
            if token == KEY:
                near = tuple(noise[at + 1 : at + 1 + m])
                assert near not in keys
                assert near[0] in {key[0] for key in keys}
                assert noise[at + m + 1] == VAL


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_lags_are_exact_and_in_range(sizes):
    seen = set()
    for found in drawn(sizes):
        tokens = found.tokens.tolist()
        pairs, _, queries = parsed(sizes, found.tokens)
        query_at = tokens.index(QUERY) + 1
        for j, (query, lag) in enumerate(zip(queries, found.lags, strict=True)):
            mark = query_at + j * sizes.width + sizes.key_tokens + 1
            assert tokens[mark] == VAL
            stored = 1 + pairs.index(query) * sizes.width + sizes.key_tokens + 2
            assert tokens[stored] == tokens[mark + 1]
            assert lag == mark - stored
            assert 40 <= lag <= 90
            targets = found.targets[mark + 1 : mark + 1 + sizes.value_tokens]
            assert targets.all()
            seen.add(int(lag))
        assert found.targets.sum() == sizes.queries * sizes.value_tokens
    assert len(seen) > 10


def test_the_whole_range_of_lags_is_used():
    sizes = SIZES[2]
    lags = np.concatenate([found.lags for found in drawn(sizes, 3000, 20, 40)])
    assert (lags.min(), lags.max()) == (20, 40)


def test_fillers_are_drawn_from_all_symbols():
    counts = np.zeros(SIZES[0].vocabulary)
    for found in drawn(SIZES[0]._replace(distractor_share=0.0), 300):
        _, noise, _ = parsed(SIZES[0], found.tokens)
        counts += np.bincount(noise, minlength=len(counts))
    assert (counts[: recall.SPECIAL] == 0).all()
    used = counts[recall.SPECIAL :]
    assert np.abs(used / used.mean() - 1).max() < 0.15


def test_the_guess_is_what_answering_a_stored_value_gives():
    sizes = SIZES[0]
    stream = np.random.default_rng(1)
    right = 0
    for found in drawn(sizes, 4000):
        pairs, _, queries = parsed(sizes, found.tokens)
        answer = pairs[int(stream.integers(sizes.pairs))][-1]
        right += answer == queries[0][-1]
    assert right / 4000 == pytest.approx(sizes.guess, abs=0.025)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(5, 90, "lag from 5: the nearest possible is 6"), (40, 59, "span 20 positions")],
)
def test_ranges_that_cannot_be_are_refused(low, high, words):
    with pytest.raises(ValueError, match=words):
        recall.noise_range(SIZES[0], low, high)


def test_a_further_sequence_changes_no_earlier_one():
    first, again = drawn(SIZES[1], 3), drawn(SIZES[1], 5)
    for one, other in zip(first, again, strict=False):
        np.testing.assert_array_equal(one.tokens, other.tokens)
