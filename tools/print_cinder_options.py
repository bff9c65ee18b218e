#!/usr/bin/env python3
"""Print the options of an installed Cinder, by group, as JSON.

By the interpreter of ``.venv-cinder``; nothing of blockattach is imported. Listed are the options
that Cinder and its libraries give to oslo.config's generator, with their former names.
"""
import importlib.metadata
import json
import sys
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any


def list_options(load: Callable[[], Callable[[], Any]]) -> Any:
    """Return what one entry point lists. Drivers need packages that are not installed."""
    while True:
        try:
            return load()()
        except ModuleNotFoundError as exc:
            if exc.name is None or exc.name.startswith('cinder'):
                raise
            sys.modules[exc.name] = unittest.mock.MagicMock()


def main() -> None:
    """Print them."""
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
