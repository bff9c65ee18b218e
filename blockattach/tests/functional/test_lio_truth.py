"""Repair of LIO from the database after a reboot, a crash or a foreign change.

A stand-in takes the place of the kernel.
"""
import contextlib
import dataclasses

from blockattach.platform import failpoints
from blockattach.storage.drivers.targets import lio
from blockattach.storage.privileged import context
from blockattach.tests.conformance import settings as conformance_settings
from blockattach.tests.fixtures import lio_kernel
from blockattach.tests.functional import instances

RW, RO = instances.RW, instances.RO


class PlayedLio(lio.LioTarget):
    """LIO target whose initiators log in at the stand-in kernel."""

    def __init__(self, settings, kernel):
        super().__init__(settings)
        self._kernel = kernel

    def log_in(self, volume_id, initiator, credential):
        if not self._kernel.log_in(self._name(volume_id), initiator, credential.username,
                                   credential.password):
            return None
        return next(grant.mode for export in self.exports() for grant in export.grants
                    if (grant.volume_id, grant.initiator) == (volume_id, initiator))

    def log_out(self, volume_id, initiator):
        """Ignore the logout, because these tests check no sessions after it."""


class LioTruthTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.kernel = lio_kernel.FakeLio()
        playing = contextlib.ExitStack()
        self.addCleanup(playing.close)
        playing.enter_context(self.kernel.installed(context.lio))
        settings = dataclasses.replace(conformance_settings.settings('/nonexistent'), target='lio',
                                       target_port=3260)
        self.target = PlayedLio(settings, self.kernel)
        self.target.check()
        self.world.target = self.target
        self.world.loaded = dataclasses.replace(self.world.loaded, target=self.target)
        self.world.start_instance()
        self.volume = self.a_volume()
        self.writer = self.world.attached(self.volume, 'writer')
        self.reader = self.world.attached(self.volume, 'reader', RO)
        self.entries = (f'{self.kernel.root}/iscsi/{settings.target_prefix}volume-'
                        f'{self.volume.id}/tpgt_1/acls')

    def a_volume(self):
        made = self.world.volume(multiattach=True)
        self.kernel.add_device(f'/dev/fake/pool/volume-{made.id}')
        return made

    def test_repair_pass_restores_exports_after_reboot(self):
        before = self.target.exports()
        self.kernel.reboot()
        self.target.check()
        self.assertEqual((), self.target.exports())
        self.world.start_instance()
        self.world.instance.look()
        # Only the hosts can restore their sessions.
        self.assertEqual(
            [dataclasses.replace(grant, sessions=0) for grant in before[0].grants],
            list(self.target.exports()[0].grants))
        self.assert_agree()
        self.assertEqual(0, self.world.instance.look())

    def test_repair_pass_restores_foreign_chap_account(self):
        with open(f'{self.entries}/{self.reader.initiator}/auth/userid', 'w',
                  encoding='ascii') as file:
            file.write('other')
        self.world.instance.look()
        self.assert_agree()
        self.assertEqual((RW, 1), self.world.granted(self.volume)[self.writer.initiator])

    def test_repair_pass_removes_partial_export_of_unused_volume(self):
        unused = self.a_volume()
        for step in ('after_target', 'after_backstore_made'):
            self.arm(f'privileged.lio.{step}')
            with self.assertRaises(instances.Death):
                self.target.export(self.world.backend.export_of(unused))
            failpoints.disarm(f'privileged.lio.{step}')
        self.assertEqual(2, len(self.target.exports()))
        for _ in range(2):
            self.world.instance.look()
        self.assertEqual([self.volume.id], [one.volume_id for one in self.target.exports()])
        self.assert_agree()

    def test_delete_of_writer_narrows_grant_of_reader(self):
        both = self.world.create(self.volume, 'reader', RW)
        self.assertEqual(RW, self.world.granted(self.volume)[self.reader.initiator][0])
        self.world.delete(both)
        self.assertEqual((RO, 1), self.world.granted(self.volume)[self.reader.initiator])
        self.world.delete(self.reader)
        self.assertEqual({self.writer.initiator: (RW, 1)}, self.world.granted(self.volume))
        self.assert_agree()
