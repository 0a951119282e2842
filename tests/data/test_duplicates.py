"""Documents of equal text: which copy stays, whatever the order; what is counted."""

import random

import pytest

from fedscan.data.collect import collect, empty
from fedscan.data.duplicates import ACROSS, DIGEST_BYTES, WITHIN, digest, owner
from fedscan.data.records import COPY_ACROSS, COPY_WITHIN, KEPT, Position, Record
from fedscan.data.tokenizers import TOKENIZERS

BYTES = TOKENIZERS["bytes"]()
DOMAINS = ["arxiv", "c4", "github"]


def gather(records, drop=True, most=1000, quota=10**9):
    records = [r if isinstance(r, Record) else Record(*r, KEPT) for r in records]
    return collect(records, BYTES, most, quota, empty(DOMAINS), drop_duplicates=drop)


def texts(found):
    return {d: sorted(map(BYTES.decode, bucket)) for d, bucket in found.documents.items()}


def test_white_space_alone_makes_no_other_text():
    same = ["a b\nc", "a b\r\nc\r\n", "  a  b c", "a\tb\u2003c\n\n"]
    assert len({digest(text) for text in same}) == 1
    others = ["a b\nc", "A b c", "ab c", "a b c.", "", "a b \x00c"]
    assert len({digest(text) for text in others}) == len(others)
    assert {len(digest(text)) for text in others} == {DIGEST_BYTES}


def test_the_text_draws_its_domain_and_no_domain_is_favoured():
    assert owner(digest("some text"), DOMAINS) == "github"  # the same on every machine, for ever
    counts = dict.fromkeys(DOMAINS, 0)
    for index in range(900):
        identity = digest(str(index))
        drawn = owner(identity, DOMAINS)
        assert drawn == owner(identity, reversed(DOMAINS))
        # Taking another domain away leaves it where it is.
        assert drawn == owner(identity, {drawn, "c4"})
        counts[drawn] += 1
    assert min(counts.values()) > 250


RECORDS = [
    *((domain, f"shared {i}") for i in range(30) for domain in DOMAINS),
    *(("arxiv", f"twice {i % 20}") for i in range(40)),
    *(("c4", f"two domains {i % 10}") for i in range(30)),
    *(("github", f"two domains {i}") for i in range(10)),
    *((domain, f"{domain} only") for domain in DOMAINS),
]


@pytest.mark.parametrize("seed", range(10))
def test_what_stays_and_what_is_counted_do_not_depend_on_the_order(seed):
    shuffled = random.Random(seed).sample(RECORDS, len(RECORDS))
    found, first = gather(shuffled), gather(RECORDS)
    assert texts(found) == texts(first)
    assert found.outcomes == first.outcomes
    kept = gather(shuffled, drop=False)
    assert kept.copies == found.copies == first.copies


def test_one_copy_stays_and_every_copy_is_counted():
    found = gather(RECORDS)
    left = [text for bucket in texts(found).values() for text in bucket]
    assert sorted(left) == sorted({text for _, text in RECORDS})
    assert found.copies.total() == len(RECORDS) - len(left)
    assert found.copies["arxiv", WITHIN] == 20
    assert found.copies["c4", WITHIN] == 20
    assert found.copies["github", WITHIN] == 0
    assert sum(n for (_, kind), n in found.copies.items() if kind == ACROSS) == 60 + 10
    for domain in DOMAINS:
        for kind, outcome in ((WITHIN, COPY_WITHIN), (ACROSS, COPY_ACROSS)):
            assert found.outcomes[domain, outcome] == found.copies[domain, kind]
        assert found.outcomes[domain, KEPT] == len(found.documents[domain])
        assert len(found.digests[domain]) == len(found.documents[domain])
    kept = gather(RECORDS, drop=False)
    assert sum(map(len, kept.documents.values())) == kept.outcomes.total() == len(RECORDS)
    assert kept.copies == found.copies


def test_what_counts_is_the_text_that_is_used():
    # Equal up to the cut: what lies beyond is in no client's text.
    found = gather([("c4", "same" + "x" * 9), ("c4", "same" + "y" * 9)], most=4)
    assert texts(found)["c4"] == ["same"]
    assert found.copies == {("c4", WITHIN): 1}
    # Also where one is as long as the cut.
    assert gather([("c4", "same"), ("c4", "same" + "y" * 9)], most=4).copies == found.copies


def test_a_bucket_that_loses_a_document_takes_another():
    shared = next(t for i in range(99) if owner(digest(t := f"text {i}"), ["arxiv", "c4"]) == "c4")
    size = len(shared) + 1
    records = [
        ("arxiv", shared), ("arxiv", "beyond"), ("c4", shared), ("arxiv", "0123456"),
        ("c4", "another"), ("github", "g" * 99),
    ]  # fmt: skip
    found = gather(records, quota=size)
    assert texts(found) == {"arxiv": ["0123456"], "c4": [shared], "github": ["g" * 99]}


class PanicException(BaseException):
    """As Rust libraries raise."""


@pytest.mark.parametrize("error", [PanicException, ValueError, RuntimeError])
def test_a_text_that_cannot_be_tokenised_is_named(error):
    def broken(text, count):
        raise error("called `Result::unwrap()`\n on an `Err` value")

    record = Record("c4", "x", KEPT, "folder/x.jsonl:7")
    with pytest.raises(ValueError, match=r"^folder/x.jsonl:7: the text cannot be token.*unwrap"):
        collect([record], BYTES._replace(head=broken), 9, 9, empty(DOMAINS))


def test_a_person_may_still_stop_it():
    def stopped(text, count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect([Record("c4", "x", KEPT)], BYTES._replace(head=stopped), 9, 9, empty(DOMAINS))


def test_going_on_from_any_position_ends_alike():
    records = random.Random(1).sample(RECORDS, len(RECORDS))
    stream = [item for r in records for item in (Record(*r, KEPT), Position(None))]
    saved = []

    def remember(position, so_far):
        copied = [{d: list(b) for d, b in part.items()} for part in so_far[:2]]
        saved.append(
            so_far._replace(documents=copied[0], digests=copied[1], seen=dict(so_far.seen))
        )

    whole = collect(stream, BYTES, 1000, 10**9, empty(DOMAINS), remember)
    for index in range(0, len(saved), 13):
        rest = stream[2 * (index + 1) :]
        again = collect(rest, BYTES, 1000, 10**9, saved[index])
        assert again.outcomes == whole.outcomes
        assert again.copies == whole.copies
        assert again.digests == whole.digests
        assert again.seen == whole.seen
        assert texts(again) == texts(whole)
