"""Multi-query recall: every key is asked once, its answer is its value, gaps follow their law."""

import numpy as np
import pytest

from fedscan.data.multi_query_recall import FILLER, sequence


def drawn(count=50, length=64, pairs=8, vocabulary=40, power=0.01):
    stream = np.random.default_rng(0)
    return [sequence(length, pairs, vocabulary, power, stream) for _ in range(count)]


def test_every_key_is_asked_once_and_answered_by_its_value():
    for found in drawn():
        keys, values = found.tokens[:16:2], found.tokens[1:16:2]
        assert len(set(keys)) == 8
        assert ((keys > 0) & (keys < 20)).all()
        assert ((values >= 20) & (values < 40)).all()
        asked = np.flatnonzero(found.answers >= 0)
        assert sorted(found.tokens[asked]) == sorted(keys)
        answer = dict(zip(keys, values, strict=True))
        assert [answer[key] for key in found.tokens[asked]] == found.answers[asked].tolist()
        assert (asked >= 16).all()
        rest = np.setdiff1d(np.arange(16, 64), asked)
        assert (found.tokens[rest] == FILLER).all()


def test_gaps_follow_a_power_law():
    first, last = 0, 0
    for found in drawn(2000, length=256, pairs=2):
        asked = np.flatnonzero(found.answers >= 0)
        first += (asked < 4 + 25).sum()
        last += (asked >= 256 - 25).sum()
    assert first > 5 * last > 0
    # At a = 1 all gaps are equally likely.
    places = np.concatenate(
        [np.flatnonzero(f.answers >= 0) for f in drawn(4000, length=64, pairs=2, power=1.0)]
    )
    counts = np.bincount((places - 4) // 2, minlength=30)
    assert np.abs(counts / counts.mean() - 1).max() < 0.25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((31, 8, 40), "8 pairs and their queries need 32 tokens, not 31"),
        ((64, 8, 16), "vocabulary 16 has 7 keys for 8 pairs"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        sequence(*arguments, 0.01, np.random.default_rng(0))
