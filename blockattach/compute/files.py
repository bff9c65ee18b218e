"""JSON files that only their owner can read, for state that must outlive a restart."""
import contextlib
import json
import os
from typing import Any


def write(path: str, value: Any) -> None:
    """Write a value to a file as JSON, and replace the file atomically.

    After a power failure, the file has the old or the new content.
    """
    made = f'{path}.new'
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, 'w', encoding='utf-8') as file:
        json.dump(value, file)
        file.flush()
        # Synced before the rename, or a power failure could leave a truncated file.
        os.fsync(file.fileno())
    os.replace(made, path)


def read(path: str) -> Any:
    """Return the parsed content of a file, or None if the file does not exist."""
    try:
        with open(path, encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def remove(path: str) -> None:
    """Delete a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
