"""What a check of results says."""

from typing import NamedTuple


class Check(NamedTuple):
    """One outcome; columns of table ``checks``."""

    check: str
    subject: str
    passed: bool
    detail: str


def present_code(
    subject: str,
    old: int,
    detail: str,
    code_counts: bool,
    name: str = "results of the present code",
) -> Check:
    """Return the check that rows were made by the present code.

    Args:
        subject: file or job.
        old: rows of other code.
        detail: what was found.
        code_counts: whether such rows are refused, or only listed.
        name: of the check.

    Returns:
        The outcome.
    """
    return Check(name, subject, not old or not code_counts, detail)
