"""The search for a teacher: candidates in order, screened small, then checked in full."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedscan.experiments.teachers.acceptance import Diagnostics, diagnose, refusals
from fedscan.experiments.teachers.candidates import Teacher, candidates, write
from fedscan.models.selective_ssm.layout import Shape

SCREEN = {"train": 256, "test": 128}


class Sizes(NamedTuple):
    """Sizes of a dataset."""

    train: int  # sequences
    test: int  # sequences
    burn_in: int  # tokens discarded
    length: int  # tokens stored


class Attempt(NamedTuple):
    """One candidate, on the small or on the full draw."""

    teacher: Teacher
    sample: str  # 'screen' or 'full'
    diagnostics: Diagnostics
    refused: list[str]  # criteria not met
    train: np.ndarray
    test: np.ndarray


def search(shape: Shape, rho: float, sizes: Sizes) -> Iterator[Attempt]:
    """Try candidates until one meets every criterion on the full data.

    Args:
        shape: sizes of the layer.
        rho: stability limit.
        sizes: of the dataset; a screen is never larger.

    Yields:
        Every attempt; the last one is accepted if its sample is 'full' and nothing is refused.
    """
    screen = {split: min(count, getattr(sizes, split)) for split, count in SCREEN.items()}
    full = {"train": sizes.train, "test": sizes.test}
    for teacher in candidates(shape, rho):
        for sample, counts in (("screen", screen), ("full", full)):
            attempt = _attempt(teacher, sample, counts, sizes)
            yield attempt
            if attempt.refused:
                break
        else:
            return


def _attempt(teacher: Teacher, sample: str, counts: dict[str, int], sizes: Sizes) -> Attempt:
    train, test = (
        write(teacher, split, counts[split], sizes.burn_in, sizes.length)
        for split in ("train", "test")
    )
    found = diagnose(teacher, train, test)
    return Attempt(teacher, sample, found, refusals(found, teacher.shape.d_input), train, test)
