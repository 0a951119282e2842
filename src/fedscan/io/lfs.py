"""Git LFS pointers: the short text that stands for a file which was not fetched."""

PREFIX = b"version https://git-lfs.github.com/spec/"
POINTER_MESSAGE = "a Git LFS pointer, not the data; run 'git lfs pull'"


def is_pointer(head: bytes) -> bool:
    """Tell whether a file that begins with ``head`` is a pointer.

    Args:
        head: at least the first 64 bytes.

    Returns:
        True for a pointer, whatever the file's name.
    """
    return head.startswith(PREFIX)
