"""Devices for a target's kit: logical volumes that the lvm store makes. Runs in a guest.

    class LioTest(lvm_devices.OnLvm, target.TargetContract):
        ...

Making one takes longer than most of the tests, so they are used again, emptied.
"""
import functools
import subprocess
import uuid

from blockattach.conformance import target
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores import lvm as lvm_stores
from blockattach.storage.privileged import context
from lab.guests import lvm_kit

_POOL_SIZE = '3g'


class Devices:
    """Thin volumes in a group on the guest's first disk, which must be empty."""

    def __init__(self):
        context.lvm.set_client_mode(False)
        lvm_kit.configure(lvm_kit.DISK)
        lvm_kit.lvm('vgcreate', '--yes', lvm_kit.GROUP, lvm_kit.DISK)
        lvm_kit.lvm('lvcreate', '--yes', '--type', 'thin-pool', '--size', _POOL_SIZE, '--addtag',
                    'blockattach', '--name', lvm_kit.POOL, lvm_kit.GROUP)
        self._store = lvm_stores.load(lvm_kit.backend_settings('thin'))
        self._store.check()
        self._volumes = {}
        self._free = []

    def take(self):
        """The path of one of 1 GiB that reads as zeros."""
        if self._free:
            path = self._free.pop()
            subprocess.run(['blkdiscard', path], check=True)
            return path
        volume_id = str(uuid.uuid4())
        volume = base.StoredVolume(volume_id, f'volume-{volume_id}', 1, 'tested')
        self._store.create(volume)
        path = self._store.device(volume)
        self._volumes[path] = volume
        return path

    def grow(self, path, size_gb):
        """Extend one, in use or not. It is not given to another test."""
        self._store.extend(self._volumes.pop(path), size_gb)

    def allocated(self, path):
        """How many bytes of the pool one takes."""
        return self._store.allocated_bytes(self._volumes[path])

    def delete(self, path):
        """Remove one, as a backend does."""
        self._store.delete(self._volumes[path])

    def give_back(self, path):
        """Once nobody uses it."""
        if path in self._volumes:
            self._free.append(path)


@functools.cache
def devices():
    """Those of this guest; the volume group is made with the first call."""
    return Devices()


class OnLvm(target.TargetBase):
    """What a kit asks of devices."""

    def make_device(self, volume_id, size_gb):
        path = devices().take()
        self.given.append(path)
        return path

    def grow_device(self, device, size_gb):
        devices().grow(device, size_gb)

    def allocated_bytes(self, device):
        return devices().allocated(device)

    def setUp(self):
        self.given = []
        # The last to happen: until then the target holds them.
        self.addCleanup(self._give_back)
        super().setUp()

    def _give_back(self):
        for path in self.given:
            devices().give_back(path)
