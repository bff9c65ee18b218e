#!/usr/bin/env python3
"""Print the options of an installed Cinder, by group, as JSON.

Run by the interpreter of ``.venv-cinder``, without importing blockattach. The list contains the
options that Cinder and its libraries register with oslo.config's generator, and former names.
"""
import importlib.metadata
import json
import sys
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any


def list_options(load: Callable[[], Callable[[], Any]]) -> Any:
    """Return the options of one entry point, replacing missing packages of drivers by mocks."""
    while True:
        try:
            return load()()
        except ModuleNotFoundError as exc:
            if exc.name is None or exc.name.startswith('cinder'):
                raise
            sys.modules[exc.name] = unittest.mock.MagicMock()


def main() -> None:
    """Print the options."""
    warnings.simplefilter('ignore')
    found: dict[str, set[str]] = {}
    for entry in importlib.metadata.entry_points(group='oslo.config.opts'):
        for group, options in list_options(entry.load):
            place = str(getattr(group, 'name', group) or 'DEFAULT')
            for option in options:
                found.setdefault(place, set()).add(option.dest)
                for former in option.deprecated_opts:
                    found.setdefault(former.group or place, set()).add(
                        (former.name or option.dest).replace('-', '_'))
    json.dump({group: sorted(names) for group, names in found.items()}, sys.stdout)


if __name__ == '__main__':
    main()
