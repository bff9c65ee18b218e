"""Settings of a backend for one test: folders of its own, a free port."""
import os
import socket
import tempfile
import unittest

from blockattach.conf import backend


def outside_program(test: unittest.TestCase, present: bool, name: str) -> None:
    """Skip without an outside program; where CI is true, its absence is a failure."""
    if present:
        return
    if os.environ.get('CI') == 'true':
        test.fail(f'{name} is not installed')
    test.skipTest(f'{name} is not installed')


def folder(test: unittest.TestCase) -> str:
    """A folder that is removed after the test."""
    made = tempfile.TemporaryDirectory(prefix='conformance-')
    test.addCleanup(made.cleanup)
    return made.name


def free_port() -> int:
    """A port that nobody listens on, and that no other test's "first free" search comes to."""
    with socket.socket() as found:
        found.bind(('127.0.0.1', 0))
        return int(found.getsockname()[1])


def settings(state_dir: str, target_port: int = 0,
             tgt_socket: str | None = None) -> backend.BackendSettings:
    """Everything at its default but the folders."""
    return backend.BackendSettings(
        name='tested', state_dir=state_dir, volume_backend_name='tested', store='file',
        target='tgt', pool_name='tested', volumes_dir=os.path.join(state_dir, 'volumes'),
        target_ip_address='127.0.0.1', target_port=target_port,
        target_prefix='iqn.2010-10.org.openstack:', tgt_socket=tgt_socket,
        reserved_percentage=0, max_over_subscription_ratio=20.0)
