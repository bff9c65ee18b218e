"""Sizes: the API speaks GiB, files and targets speak bytes."""

KIB = 1024
MIB = 1024 ** 2
GIB = 1024 ** 3


def gib_to_bytes(gib: int) -> int:
    """Whole GiB in bytes."""
    return gib * GIB


def bytes_to_gib(count: int) -> float:
    """Bytes in GiB, rounded to the two digits that reports carry."""
    return round(count / GIB, 2)
