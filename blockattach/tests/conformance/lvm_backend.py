"""The lvm store on a stand-in for LVM, for machines whose kernel has no device-mapper."""
import dataclasses
import os
import pathlib
import sys
import unittest
import uuid
from unittest import mock

from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores import lvm as lvm_stores
from blockattach.storage.privileged import context
from blockattach.tests.conformance import lvm_stand_in
from blockattach.tests.conformance import settings

GROUP = 'vg'
POOL = 'vg-pool'
TAG = 'blockattach'


class Machine:
    """Machine with one volume group as seen by its LVM, which a test may change at any time."""

    def __init__(self, test: unittest.TestCase, size_gb: int = 8) -> None:
        self.folder = pathlib.Path(settings.folder(test))
        self._install(test)
        with self.state() as state:
            group = lvm_stand_in.new_group(size_gb * units.GIB)
            state['groups'][GROUP] = group
            group['lvs'][POOL] = lvm_stand_in.new_volume(
                'thin-pool', 4 * units.GIB, tags=[TAG])

    def state(self):
        """Open the state of the stand-in to read or change it."""
        return lvm_stand_in.OpenedState(self.folder)

    def volumes(self) -> dict[str, dict[str, object]]:
        """Return the logical volumes by name."""
        with self.state() as state:
            return state['groups'][GROUP]['lvs']

    def dump(self) -> dict[str, object]:
        """Return the volume groups with their logical volumes."""
        with self.state() as state:
            return state['groups']

    def add(self, name: str, facts: dict[str, object]) -> None:
        """Add a logical volume with its device."""
        with self.state() as state:
            state['groups'][GROUP]['lvs'][name] = facts
        path = self.folder / 'dev' / GROUP / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, 'wb') as file:
            file.truncate(facts['size'])

    def change(self, name: str | None = None, **facts: object) -> None:
        """Change properties of a logical volume, or of the volume group."""
        with self.state() as state:
            group = state['groups'][GROUP]
            (group if name is None else group['lvs'][name]).update(facts)

    def fault(self, verb: str, fault: str | None) -> None:
        """Inject a fault: an LVM command fails with a message, or hangs. None ends the fault."""
        with self.state() as state:
            state['faults'][verb] = fault

    def settings(self, lvm_type: str, reserved_percentage: int = 0, **changes: object):
        """Return the settings of a backend on this machine, with changed LVM settings."""
        lvm_settings = backend.LvmSettings(
            volume_group=GROUP, lvm_type=lvm_type, thin_pool=POOL, conf_file='',
            command_seconds=60, warn_percent=80, full_percent=95,
            volume_clear_bandwidth=512)
        return dataclasses.replace(
            settings.settings(str(self.folder)), store='lvm', max_over_subscription_ratio=4.0,
            reserved_percentage=reserved_percentage,
            lvm=dataclasses.replace(lvm_settings, **changes))

    def store(self, lvm_type: str, **changes: object):
        return lvm_stores.load(self.settings(lvm_type, **changes))

    def _install(self, test: unittest.TestCase) -> None:
        """Put the stand-in first in PATH, and run privileged functions in this process."""
        program = self.folder / 'bin' / 'lvm'
        program.parent.mkdir()
        # Python caches the bytecode of a module, but compiles a script at each start.
        start = ('import sys; sys.path.append(sys.argv[1]); import lvm_stand_in; '
                 'sys.exit(lvm_stand_in.main(*sys.argv[2:]))')
        place = os.path.dirname(lvm_stand_in.__file__)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S -c "{start}" '
                           f'{place} {self.folder} "$@"\n')
        program.chmod(0o755)
        path = f'{program.parent}{os.pathsep}{os.environ["PATH"]}'
        patched = mock.patch.dict(os.environ, PATH=path)
        patched.start()
        test.addCleanup(patched.stop)
        test.addCleanup(context.lvm.set_client_mode, context.lvm.client_mode)
        context.lvm.set_client_mode(False)


class LvmTestCase(unittest.TestCase):
    """Test case with a machine of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.machine = Machine(self)

    def volume(self, size_gb: int = 1) -> base.StoredVolume:
        """Return a volume that does not exist yet."""
        volume_id = str(uuid.uuid4())
        return base.StoredVolume(volume_id, f'volume-{volume_id}', size_gb, 'tested')

    def snapshot(self, volume: base.StoredVolume) -> base.StoredSnapshot:
        """Return a snapshot that does not exist yet."""
        snapshot_id = str(uuid.uuid4())
        return base.StoredSnapshot(snapshot_id, f'snapshot-{snapshot_id}', volume)
