"""What must be found again, as JSON in files that only root reads."""
import contextlib
import json
import os
from typing import Any


def write(path: str, value: Any) -> None:
    """Replace a file as a whole; after a power cut there is the old one or the new one."""
    made = f'{path}.new'
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, 'w', encoding='utf-8') as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(made, path)


def read(path: str) -> Any:
    """What was written; None: no such file."""
    try:
        with open(path, encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def remove(path: str) -> None:
    """Have no such file."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
