"""Synthetic text: golden digests, structure, and the order of domains by distance."""

import hashlib
import math
import subprocess
import sys
from collections import Counter

import pytest

from fedscan.data.domains import DOMAINS
from fedscan.data.lexicon import Stream, lexicon
from fedscan.data.synthetic_text import STYLES, document

# SHA-256 of the first three documents of seed 0, joined by NUL. They define the generator: a
# change is a new version of all synthetic results, not a repair.
GOLDEN = {
    "arxiv": "6732332fbf13fc13fb629dcb94befc34ffedc55e307ecae41ee98252c9837307",
    "github": "d759ed0743113ea2f4a52f1d496a890f0e04255525987c68cd4ba9f475db89ea",
    "stackexchange": "05cc5c9818b98fefb5eb4403adb2572b411b54474653bd0704575546184d62af",
    "wikipedia": "4a1a4529d3ad5c05122e1f8e46dd0a400f2aa6aaaa9a7e2f8ee033509a26d9a9",
    "c4": "8e6fcb164f126782244f29da770e26b7d779262116ee94e52f525baea9826d53",
    "common_crawl": "0a8cca6b9f2da90a995e94f7959fef29f3fa129ffcbb253fa7b383ee1d583542",
}


def test_every_domain_has_a_style():
    assert list(STYLES) == list(DOMAINS)


@pytest.mark.parametrize("domain", DOMAINS)
def test_golden_documents(domain):
    text = "\0".join(document(domain, 0, index) for index in range(3))
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN[domain]


def test_documents_do_not_depend_on_hash_seed_or_locale():
    script = (
        "from fedscan.data.synthetic_text import document\n"
        "import sys; sys.stdout.buffer.write(document('github', 3, 5).encode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "LC_ALL": locale},
            capture_output=True,
            check=True,
        ).stdout
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"))
    }
    assert outputs == {document("github", 3, 5).encode()}


def test_documents_are_distinct():
    texts = [document(d, seed, i) for d in DOMAINS for seed in (0, 1) for i in range(20)]
    assert len(set(texts)) == len(texts)


def test_stream_is_uniform():
    stream = Stream("test")
    counts = Counter(stream.below(10) for _ in range(20000))
    # 20,000 draws: standard deviation of a count is 42
    assert all(abs(counts[k] - 2000) < 200 for k in range(10))


def test_words_follow_zipf_in_the_domains_own_order():
    nouns = lexicon("arxiv").nouns
    assert set(nouns.shared) == set(nouns.own) == set(lexicon("c4").nouns.own)
    assert nouns.own != lexicon("c4").nouns.own
    assert nouns.shared == lexicon("c4").nouns.shared


def bigram_entropy(train, test):
    """Cross-entropy in nats per word of an add-one-interpolated bigram model."""
    unigram, bigram = Counter(train), Counter(zip(train, train[1:], strict=False))
    total, size = len(train), len(set(train)) + 1
    nats = 0.0
    for first, second in zip(test, test[1:], strict=False):
        base = (unigram[second] + 1) / (total + size)
        weight = unigram[first] / (unigram[first] + 5)
        seen = bigram[first, second] / unigram[first] if unigram[first] else 0.0
        nats -= math.log(weight * seen + (1 - weight) * base)
    return nats / (len(test) - 1)


def test_distances_between_domains_are_like_those_of_real_text():
    texts = {d: [document(d, 0, i).split() for i in range(60)] for d in DOMAINS}
    train = {d: sum(t[:45], []) for d, t in texts.items()}
    test = {d: sum(t[45:], []) for d, t in texts.items()}
    loss = {(a, b): bigram_entropy(train[a], test[b]) for a in DOMAINS for b in DOMAINS}
    for domain in DOMAINS:
        others = [loss[other, domain] for other in DOMAINS if other != domain]
        assert loss[domain, domain] < min(others)
    # web text is nearer to web text than code and papers are
    assert loss["c4", "common_crawl"] < min(
        loss["github", "common_crawl"], loss["arxiv", "common_crawl"]
    )
