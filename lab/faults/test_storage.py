"""Failures of the storage: tgtd is killed, and the disk of the file store is full."""
import functools
import os
import signal

from blockattach.testing import scsi
from blockattach.tests.functional import base
from lab.faults import base as faults
from lab.faults import cloud as clouds
from lab.faults import disks
from lab.simulation import nouns
from lab.simulation import recording

_ROUND = 128
"""Number of written blocks after which a stream has written everywhere on its disk."""
_UNTOUCHED = 1 << 20


class TargetTest(faults.FaultsTestCase):
    """Death of tgtd, which ends all sessions. Granted hosts are granted again."""

    DURING = (
        ('attach', clouds.MANAGER, 'backend.target.grant.before'),
        ('attach', clouds.MANAGER, 'volume.attachments.after_grant'),
        ('detach', clouds.MANAGER, 'backend.target.revoke.before'),
        ('delete', clouds.MANAGER, 'volume.volumes.after_unexport'))

    def kill_target(self):
        os.kill(self.cloud.target_pid(), signal.SIGKILL)

    def reopen(self):
        """Wait until the writing hosts are cut off, and log them in again after the recovery."""
        self.assertTrue(clouds.wait_for(lambda: len(self.interrupted()) == len(faults.STEADY)))
        self._end_streams()
        self.assertTrue(clouds.wait_for(self.cloud.is_clean))
        self.open_streams()

    def test_while_nobody_asks_for_anything(self):
        self.client.forget()
        self.kill_target()
        begun = self.clock.monotonic()
        self.reopen()
        self.in_order('tgtd killed', begun)

    def test_in_the_middle_of_something(self):
        for name, process, place in self.DURING:
            with self.fault(operation=name, place=place):
                def end():
                    self.kill_target()
                    self.assertTrue(clouds.wait_for(
                        lambda: len(self.interrupted()) == len(faults.STEADY)))
                    self._end_streams()
                self.stopped_at(nouns.named(name), process, place, end,
                                f'tgtd killed with the manager at {place} in {name}')
                self.open_streams()

    def test_while_the_manager_is_dead(self):
        self.client.forget()
        self.cloud.kill(clouds.MANAGER)
        self.kill_target()
        self.cloud.begin(clouds.MANAGER)
        begun = self.clock.monotonic()
        self.reopen()
        self.in_order('tgtd and its manager killed', begun)


class FullDiskTest(faults.FaultsTestCase):
    """Full disk of the file store, a small file system in the mount namespace of its manager."""

    DISK = disks.OwnDisk(mebibytes=64, inodes=64)
    SETTINGS = {'disks': {'max_over_subscription_ratio': '1000'}}

    @classmethod
    def setUpClass(cls):
        why = disks.why_missing()
        if why:
            print(f'{cls.__name__}: {why}')
            cls.skipTest(cls('setUp'), why)
        super().setUpClass()

    @classmethod
    def made_ready(cls, cloud):
        cloud.prepare = {clouds.MANAGER: functools.partial(
            cls.DISK.mount, cls.folder_of(cloud), cloud.state(clouds.MANAGER) / 'tgtd' / 'pid')}

    @staticmethod
    def folder_of(cloud):
        return cloud.state(clouds.MANAGER) / 'volumes' / 'disks'

    def test_a_full_disk(self):
        self.assertTrue(clouds.wait_for(
            lambda: all(stream.count > _ROUND for stream in self.streams)))
        folder = disks.path_in(self.cloud.target_pid(), self.folder_of(self.cloud))
        passing = self.client.volume()
        self.client.forget()
        with disks.full(folder):
            self.cannot_write()
            self.assertEqual('error', self.made())
            # Requests that need no room are served, even by a manager that has just restarted.
            self.cloud.kill(clouds.MANAGER)
            self.cloud.begin(clouds.MANAGER)
            self.cloud.wait_ready([clouds.MANAGER])
            made = self.client.attached(self.client.shared)
            self.client.sure((200,), 'DELETE', f'/attachments/{made}')
            self.client.sure((202,), 'DELETE', f'/volumes/{passing}')
            self.assertIsNone(self.client.settled(passing))
        self.in_order('full disk', self.clock.monotonic())
        # The next report of the pool shows the free space again.
        self.client.volume()
        self.client.clear()

    def made(self):
        """Create a volume, and return its final status."""
        status, answer = self.client.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(202, status, answer)
        return self.client.settled(answer['volume']['id'])

    def cannot_write(self):
        """Check that a host gets an error if it writes to a block that was never written.

        The other hosts get no error.
        """
        made = self.client.sure((200,), 'POST', '/attachments',
                                recording.wish(self.client.shared))['attachment']
        with scsi.Session(base.connector(recording.GUEST)['initiator'],
                          made['connection_info']) as session:
            self.assertEqual(scsi.CHECK_CONDITION, session.write(_UNTOUCHED, bytes(512)).status)
        self.client.sure((200,), 'DELETE', f'/attachments/{made["id"]}')
