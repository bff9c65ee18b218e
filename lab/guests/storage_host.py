"""Service on a storage host with LVM and LIO, and a disk for files that survive a power loss."""
import secrets

import bcrypt
from oslo_config import cfg

from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading
from blockattach.storage.privileged import context
from lab.guests import block_storage
from lab.guests.machines import guest as guests

BACKEND = 'lvm'
GROUP = 'lab'
CONF = '/srv/blockattach.conf'
PASSWORDS = '/srv/htpasswd'
STATE = '/srv/state'
LOG = '/srv/log'
_START_SECONDS = 300.0

_SETTINGS = f"""
[api]
auth_strategy = http_basic
http_basic_auth_user_file = {PASSWORDS}
[volume]
enabled_backends = {BACKEND}
[quota]
quota_volumes = -1
quota_gigabytes = -1
quota_snapshots = -1

[{BACKEND}]
store = lvm
volume_group = {GROUP}
target = lio
target_ip_address = %s
"""

# Preparation by an operator, done once.
_PREPARE = f"""
set -e
vgcreate --yes {GROUP} "$1"
lvcreate --yes --type thin-pool --size 4g --addtag blockattach --name {GROUP}-pool {GROUP}
mkfs.ext4 -q "$2"
mount "$2" /srv
mkdir /srv/target
cat >{CONF}
echo "$3" >{PASSWORDS}
umount /srv
"""

# The directory of LIO's database must be on a disk to survive a power loss.
_MOUNT = """
set -e
mount "$1" /srv
mount --bind /srv/target /etc/target
"""


class StorageHost:
    """Guest with a disk for volumes and a disk for the state of the service."""

    def __init__(self):
        self.guest = guests.Guest(
            'storage', memory='1G', modules=guests.STORAGE,
            disks=[guests.make_disk(units.gib_to_bytes(6)), guests.make_disk(256 * units.MIB)])
        # Address of the service and password of the account.
        self.service = (self.guest.address, secrets.token_hex(8))
        self.api = block_storage.BlockStorage(*self.service)

    def prepare(self):
        """Create the volume group, the file system, the configuration and the password file."""
        digest = bcrypt.hashpw(self.service[1].encode(), bcrypt.gensalt(4)).decode()
        self.guest.run('sh', '-c', _PREPARE, 'sh', self.guest.device(0), self.guest.device(1),
                       f'{block_storage.USER}:{digest}',
                       given=(_SETTINGS % self.guest.address).encode())

    def serve(self):
        """Mount the disks after a boot, start the service and wait until it is ready."""
        self.mount()
        self.start()

    def mount(self):
        """Mount the disk of the state, which is required after each boot."""
        self.guest.run('sh', '-c', _MOUNT, 'sh', self.guest.device(1))

    def start(self):
        """Start the service and wait until it is ready."""
        self._service = self.guest.spawn(
            'blockattach-all', '--state-dir', STATE, '--config-file', CONF, '--log-file', LOG,
            '--listen', f'{self.guest.address}:{block_storage.PORT}')
        self._service.wait_until_it_says('serves at', _START_SECONDS)

    def log(self):
        """Return the log of the service."""
        return self.guest.run('cat', LOG, check=False).output

    def device(self, volume_id):
        """Return the path of a volume on this host."""
        return f'/dev/{GROUP}/volume-{volume_id}'


def extend(volume_id, size_gb):
    """Extend a volume with the store, as the driver does. Runs in the guest."""
    conf = cfg.ConfigOpts()
    backend.register(conf, BACKEND)
    conf(['--config-file', CONF], project='blockattach')
    context.lvm.set_client_mode(False)
    store = loading.load_backend(backend.settings(conf, BACKEND, STATE)).store
    store.extend(base.StoredVolume(volume_id, f'volume-{volume_id}', 1, BACKEND), size_gb)
