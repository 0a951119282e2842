"""What tells banks of teachers apart, and where they lie."""


def shape_path(d_input: int, d_state: int) -> str:
    """Return the folder of a size, in hive style.

    Args:
        d_input: D.
        d_state: N.

    Returns:
        ``D=8/N=8``.
    """
    return f"D={d_input}/N={d_state}"
