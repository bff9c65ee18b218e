"""Migration of a storage host with LVM and LIO from Cinder, while a host writes to its disk.

Cinder's own program for LIO (cinder-rtstool 29.0.0) creates the target.
"""
import os
import unittest

import sqlalchemy as sa

from blockattach.tests.fixtures import cinder
from blockattach.tests.rules import sources
from lab.guests import base
from lab.guests import storage_host
from lab.guests.machines import guest as guests
from lab.guests.machines import initiator

VOLUME = '5e0f6a4e-8a64-4d55-9c43-2d3f4a1e7b11'
IQN = f'iqn.2010-10.org.openstack:volume-{VOLUME}'
USER, PASSWORD = 'someone', 'a-shared-secret'
THERE = 'sqlite:////srv/cinder.sqlite'
RTSTOOL = sources.ROOT / '.venv-cinder' / 'bin' / 'cinder-rtstool'
PLACES = {'OS_DEFAULT__STATE_PATH': storage_host.STATE}
ACLS = f'/sys/kernel/config/target/iscsi/{IQN}/tpgt_1/acls'
LUN = f'{ACLS}/../lun/lun_0'
# The loop ends at the first failed write.
WRITE_ON = """
(written=0
while dd if=/dev/zero of="$1" bs=4k count=16 oflag=direct status=none; do
    written=$((written + 1)); echo $written >/run/written.new; mv /run/written.new /run/written
done) </dev/null >/dev/null 2>/run/failed &
"""


def fill(address, name):
    """Create a Cinder database with the volume and its attachment. Runs in the guest."""
    engine = sa.create_engine(THERE)
    made = cinder.Cinder(engine)
    volume_id = made.volume(
        id=VOLUME, host=f'localhost@{storage_host.BACKEND}#{storage_host.BACKEND}',
        status='in-use', provider_auth=f'CHAP {USER} {PASSWORD}',
        provider_location=f'{address}:3260,1 {IQN} 0')
    attachment_id = made.attachment(volume_id, 'writer', connection_info=None, connector=(
        f'{{"host": "writer", "initiator": "{name}"}}'))
    engine.dispose()
    return attachment_id


class MoveInTest(base.LabTestCase):

    def setUp(self):
        super().setUp()
        if not RTSTOOL.exists():
            self.assertNotEqual('true', os.environ.get('CI'), 'Cinder is not in .venv-cinder')
            raise unittest.SkipTest('Cinder is not in .venv-cinder')
        self.storage = storage_host.StorageHost()
        self.addCleanup(self.storage.guest.close)
        self.host = initiator.Initiator(
            self.a_guest('writer', modules=guests.INITIATOR, udev=True))
        guests.start_all(self.storage.guest, self.host.guest)
        self.storage.prepare()
        self.storage.mount()
        self.host.start()
        self.run_there = self.storage.guest.run
        self.address = self.storage.guest.address

    def offer(self):
        """Create the volume and its export, as Cinder's volume service does."""
        self.run_there('lvcreate', '--yes', '--type', 'thin', '--virtualsize', '1g', '--thinpool',
                       f'{storage_host.GROUP}-pool', '--name', f'volume-{VOLUME}',
                       storage_host.GROUP)
        for words in (
                ('create', self.storage.device(VOLUME), IQN, USER, PASSWORD, 'False', '-p3260',
                 f'-a{self.address}'),
                ('add-initiator', IQN, USER, PASSWORD, self.host.name)):
            self.run_there(str(RTSTOOL), *words)

    def manage(self, *words):
        return self.run_there('blockattach-manage', '--config-file', storage_host.CONF, *words,
                              environment=PLACES).output

    def goes_on(self):
        """Check that the host continues to write."""
        before = self.host.guest.run('cat', '/run/written', check=False).output.strip() or '0'
        self.host.guest.wait_for('sh', '-c', '[ "$(cat /run/written)" -gt "$0" ]', before)
        self.assertEqual('', self.host.guest.run('cat', '/run/failed').output)

    def cuts(self):
        """Return messages of the kernel about broken sessions. It would log in again silently."""
        return self.host.guest.run('sh', '-c', 'dmesg | grep "conn error" || true').output

    def serial(self):
        """Return the serial number by which the host identifies its disk."""
        return self.run_there('sh', '-c', f'cat {LUN}/*/wwn/vpd_unit_serial').output

    def test_the_host_goes_on_until_it_is_detached(self):
        self.offer()
        disk = self.host.login(f'{self.address}:3260', IQN, USER, PASSWORD)
        self.host.guest.run('sh', '-c', WRITE_ON, 'sh', disk)
        self.goes_on()
        serial = self.serial()
        attachment_id = self.storage.guest.call(fill, self.address, self.host.name)
        self.manage('db', 'sync')
        said = self.manage('import', 'cinder', '--connection', THERE)
        self.assertNotIn('Nothing was written', said)
        self.run_there('lvchange', '--addtag', 'blockattach', self.storage.device(VOLUME))
        self.storage.start()
        self.storage.guest.wait_for('grep', '-q', '1', f'{ACLS}/../attrib/prod_mode_write_protect')
        self.goes_on()
        self.assertEqual(('', serial), (self.cuts(), self.serial()))
        shown = self.storage.api.ask('GET', f'/attachments/{attachment_id}')['attachment']
        self.assertEqual(('attached', 'consumer', IQN, PASSWORD), (
            shown['status'], shown['mode_enforced_by'],
            *(shown['connection_info'][key] for key in ('target_iqn', 'auth_password'))))
        self.storage.api.ask('DELETE', f'/attachments/{attachment_id}')
        self.storage.guest.wait_for('test', '!', '-e', f'{ACLS}/{self.host.name}')
        self.host.guest.wait_for('test', '-s', '/run/failed')
        self.assertNotEqual('', self.cuts())
