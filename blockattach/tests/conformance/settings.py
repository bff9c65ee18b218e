"""Settings of a backend for one test, with folders of its own and a free port."""
import contextlib
import dataclasses
import os
import socket
import tempfile
import unittest

from blockattach.storage.conf import backend
from blockattach.testing import backend as testing_backend
from blockattach.testing import ports


def outside_program(test: unittest.TestCase, present: bool, name: str) -> None:
    """Skip the test if a program is not installed, or fail it if CI is true."""
    if present:
        return
    if os.environ.get('CI') == 'true':
        test.fail(f'{name} is not installed')
    test.skipTest(f'{name} is not installed')


def folder(test: unittest.TestCase) -> str:
    """Create a folder that is removed after the test."""
    made = tempfile.TemporaryDirectory(prefix='conformance-')
    test.addCleanup(made.cleanup)
    return made.name


def free_port() -> int:
    """Return a port that nobody listens on, and that no other test finds in its search."""
    return ports.free_port()


def more_addresses() -> tuple[str, ...]:
    """Return further addresses of this machine, for several paths."""
    found = ['127.0.0.2']
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as tried:
        tried.bind(('::1', 0))
        found.append('::1')
    return tuple(found)


def settings(state_dir: str, target_port: int = 0,
             tgt_socket: str | None = None) -> backend.BackendSettings:
    """Return the default settings of a backend with its folders in ``state_dir``."""
    return testing_backend.settings(state_dir, target_port=target_port, tgt_socket=tgt_socket)


def several(state_dir: str) -> backend.BackendSettings:
    """Return the settings of a backend with several target addresses."""
    return dataclasses.replace(settings(state_dir), target_secondary_ip_addresses=more_addresses())
