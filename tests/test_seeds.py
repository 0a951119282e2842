"""Named streams: fixed values, independent of each other and of the order of asking."""

import pytest

from fedscan import seeds


def test_golden_value():
    # BLAKE2b of '[0,"batches",1,2]', 8 bytes big-endian, shifted: computed by hand with b2sum.
    import hashlib

    digest = hashlib.blake2b(b'[0,"batches",1,2]', digest_size=8).digest()
    assert seeds.derive(0, "batches", 1, 2) == int.from_bytes(digest, "big") >> 1


def test_streams_differ_in_every_axis():
    streams = [
        seeds.derive(root, purpose, client, round_index)
        for root in (0, 1)
        for purpose in ("batches", "initial model")
        for client in range(4)
        for round_index in range(1, 4)
    ]
    assert len(set(streams)) == len(streams)
    assert seeds.derive(0, "a", 1, 23) != seeds.derive(0, "a", 12, 3)
    assert seeds.derive(0, "a", "1") != seeds.derive(0, "a", 1)


@pytest.mark.parametrize("axis", [0.7, True, None])
def test_axes_without_one_spelling_are_refused(axis):
    with pytest.raises(TypeError, match="seed axis must be int or str"):
        seeds.derive(0, "partition", axis)


def test_generators_are_fresh():
    a, b = seeds.generator(3, "x"), seeds.generator(3, "x")
    assert a.integers(1 << 40) == b.integers(1 << 40)
