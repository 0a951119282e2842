"""Checks of learners, evaluations and teachers notice what is missing."""

from fedscan.experiments.bounds.checks import checks
from fedscan.experiments.teachers.checks import checks as teacher_checks
from tests.experiments.bounds.made import CHECK


def test_checks_pass_and_notice_what_is_missing(finished):
    assert all(check.passed for check in checks(CHECK, finished))
    (whole,) = teacher_checks(CHECK, finished)
    assert whole.passed
    (fewer,) = teacher_checks(CHECK | {"rhos": [0.5]}, finished)
    assert not fewer.passed
    missing = [c for c in checks(CHECK | {"seeds": [0, 1, 2]}, finished)
               if not c.passed]  # fmt: skip
    assert {c.check for c in missing} == {"one row per learner", "every point evaluated"}
    older = [c for c in checks(CHECK | {"learner_code": "d"}, finished)
             if not c.passed]  # fmt: skip
    assert [c.check for c in older] == ["results of the present code"]
