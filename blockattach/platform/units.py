"""Conversion of sizes: GiB in the API, bytes in files and targets."""

KIB = 1024
MIB = 1024 ** 2
GIB = 1024 ** 3


def gib_to_bytes(gib: int) -> int:
    """Convert whole GiB to bytes."""
    return gib * GIB


def bytes_to_gib(count: int) -> float:
    """Convert bytes to GiB, rounded to two decimal places as in reports."""
    return round(count / GIB, 2)
