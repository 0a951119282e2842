"""Git LFS pointers: small text files that stand where the data should be."""

POINTER_MESSAGE = "a Git LFS pointer, not the data; run 'git lfs pull'"


def is_pointer(head: bytes) -> bool:
    """Return whether a file that begins so is a pointer.

    Args:
        head: first bytes of the file, 64 at least.

    Returns:
        True for a pointer.
    """
    return head.startswith(b"version https://git-lfs.github.com/spec/")
