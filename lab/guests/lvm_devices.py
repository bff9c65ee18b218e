"""Devices for the kits of targets: logical volumes of the lvm store. Runs in a guest.

    class LioTest(lvm_devices.OnLvm, target.TargetContract):
        ...

Creating a volume takes longer than most tests, so volumes are discarded and reused.
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
    """Thin volumes in a volume group on the first disk of the guest, which must be empty."""

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
        """Return the path of a volume of 1 GiB that reads as zeros."""
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
        """Extend a volume, which may be in use. The volume is not reused."""
        self._store.extend(self._volumes.pop(path), size_gb)

    def allocated(self, path):
        """Return the number of bytes that a volume occupies in the pool."""
        return self._store.allocated_bytes(self._volumes[path])

    def delete(self, path):
        """Delete a volume with the store."""
        self._store.delete(self._volumes[path])

    def give_back(self, path):
        """Return a volume that is not in use to the pool."""
        if path in self._volumes:
            self._free.append(path)


@functools.cache
def devices():
    """Return the devices of this guest. The first call creates the volume group."""
    return Devices()


class OnLvm(target.TargetBase):
    """Base class of target tests on logical volumes."""

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
        # Cleanups run in reverse order, so the target releases the devices first.
        self.addCleanup(self._give_back)
        super().setUp()

    def _give_back(self):
        for path in self.given:
            devices().give_back(path)
