"""os-migrate_volume, which moves a volume to another backend or changes nothing."""
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.api import moves
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process


class MigrateTestCase(moves.MovesTestCase):

    def migrate(self, volume_id, host=moves.OTHER, version=http.LATEST, **more):
        persona = more.pop('persona', self.http.as_admin)
        return self.act(volume_id, 'os-migrate_volume', {'host': host, **more}, version=version,
                        persona=persona)

    def migstat(self, volume_id):
        shown = self.shown(volume_id)
        self.assertEqual(shown['migration_status'], shown['os-vol-mig-status-attr:migstat'])
        return shown['status'], shown['migration_status']


class MigrateTest(MigrateTestCase):

    def test_migrate_to_other_backend_and_back(self):
        volume_id = self.written()
        self.assertEqual(('available', None), self.migstat(volume_id))
        for version, host, pool in (('3.0', moves.OTHER, moves.OTHER_POOL),
                                    ('3.15', http.POOL, http.POOL),
                                    ('3.16', moves.OTHER_POOL, moves.OTHER_POOL),
                                    (http.LATEST, 'storage-1@fake', http.POOL)):
            with self.subTest(version, host=host):
                self.assert_status(202, self.migrate(volume_id, host, version))
                self.clean()
                self.assert_at(pool, volume_id)
                self.assertEqual(('available', 'success'), self.migstat(volume_id))
                self.assertEqual((1, 0) if pool == http.POOL else (0, 1), self.allocated())
        self.assertEqual([], self.messages(volume_id))

    def test_migrated_volume_attached_at_new_backend(self):
        volume_id = self.written()
        self.assert_status(202, self.migrate(volume_id))
        self.clean()
        attachment_id = self.attached(volume_id)
        self.assertEqual([volume_id], [
            one.volume_id for one in self.other.backend.fake_target.exports()])
        self.assert_fault(400, 'Migration of volumes in use is not supported',
                          self.migrate(volume_id, 'storage-1@fake'))
        self.http.as_member.delete(f'/attachments/{attachment_id}')

    def test_migrating_volume_status_and_rejected_actions(self):
        for lock, status in ((False, 'available'), (True, 'maintenance'), ('true', 'maintenance')):
            with self.subTest(lock):
                volume_id = self.written()
                self.http.hold = True
                self.assert_status(202, self.migrate(volume_id, lock_volume=lock,
                                                     force_host_copy='no'))
                self.assertEqual((status, 'starting'), self.migstat(volume_id))
                for refused in (
                        self.migrate(volume_id),
                        self.act(volume_id, 'os-extend', {'new_size': 3}),
                        self.act(volume_id, 'os-reserve', {}),
                        self.http.as_member.delete(f'/volumes/{volume_id}'),
                        self.http.as_admin.delete(f'/volumes/{volume_id}?force=true'),
                        self.http.as_member.post('/volumes', {'volume': {
                            'source_volid': volume_id}}),
                        self.http.as_member.post('/snapshots', {'snapshot': {
                            'volume_id': volume_id}}),
                        self.http.as_member.post('/attachments', {'attachment': {
                            'volume_uuid': volume_id, 'instance_uuid': base.SERVER}})):
                    self.assert_status(400, refused)
                self.assert_fault(409, 'Retry when the operation has finished', self.act(
                    volume_id, 'os-reset_status', {'status': 'available'},
                    persona=self.http.as_admin))
                self.release()
                self.clean()
                self.assertEqual(('available', 'success'), self.migstat(volume_id))
                self.assert_at(moves.OTHER_POOL, volume_id)

    def test_migrate_to_cluster_from_3_16(self):
        volume_id = self.written()
        self.assert_status(400, self.migrate(volume_id, version='3.15', cluster='pair@x'))
        for body in ({}, {'host': moves.OTHER, 'cluster': 'pair@x'}, {'host': None}):
            self.assert_fault(400, 'One and only one of cluster and host must be set.', self.act(
                volume_id, 'os-migrate_volume', body, version='3.16', persona=self.http.as_admin))
        self.sql("UPDATE services SET cluster = 'pair@x' WHERE host = 'storage-1@other'")
        self.assert_fault(400, "No available service named 'pair@y'", self.act(
            volume_id, 'os-migrate_volume', {'cluster': 'pair@y'}, version='3.16',
            persona=self.http.as_admin))
        self.assert_fault(400, 'is not on storage-1', self.act(
            volume_id, 'os-migrate_volume', {'cluster': 'pair@x'}, version='3.16',
            persona=self.http.as_admin))

    def test_migrate_to_invalid_host_rejected(self):
        volume_id = self.written()
        in_process.Manager(self.http.deployment, moves.FAR)
        for host, said in (('nowhere', "No available service named 'nowhere'"),
                           (f'{moves.OTHER}#nowhere', 'No available service named'),
                           ('', 'One and only one of cluster and host'),
                           ('storage-1@fake', 'must be different than the current one'),
                           (http.POOL, 'must be different than the current one'),
                           (moves.FAR, 'Volumes can only be migrated between backends of one '
                                       'host. storage-2@fake is not on storage-1.')):
            with self.subTest(host):
                self.assert_fault(400, said, self.migrate(volume_id, host))
        self.sql("UPDATE services SET disabled = 1 WHERE host = 'storage-1@other'")
        self.assert_fault(400, 'No available service', self.migrate(volume_id))
        self.assertEqual(('available', None), self.migstat(volume_id))
        self.assert_at(http.POOL, volume_id)

    def test_migrate_of_used_volume_rejected(self):
        volume_id = self.written()
        self.reserve(volume_id)
        self.assert_fault(400, 'Migration of volumes in use is not supported',
                          self.migrate(volume_id))
        with_snapshot = self.written()
        self.assert_status(202, self.http.as_member.post(
            '/snapshots', {'snapshot': {'volume_id': with_snapshot}}))
        self.assert_fault(400, 'have snapshots', self.migrate(with_snapshot))
        broken = self.written()
        self.act(broken, 'os-reset_status', {'status': 'error'}, persona=self.http.as_admin)
        self.assert_fault(400, 'status must be available', self.migrate(broken))
        source = self.written()
        self.http.hold = True
        self.http.as_member.post('/volumes', {'volume': {'source_volid': source}})
        self.assert_fault(400, 'Another volume is being created from volume', self.migrate(source))

    def test_migrate_of_clone_leaves_source(self):
        source = self.written()
        copy = self.volume(source_volid=source)
        self.assert_status(202, self.migrate(copy))
        self.clean()
        self.assert_at(moves.OTHER_POOL, copy)
        self.assert_at(http.POOL, source)

    def test_migration_completion_rejected(self):
        one, other = self.written(), self.written()
        self.assert_fault(400, 'Source volume not mid-migration.', self.act(
            one, 'os-migrate_volume_completion', {'new_volume': other},
            persona=self.http.as_admin))
        self.assert_status(404, self.act(
            one, 'os-migrate_volume_completion', {'new_volume': base.ABSENT},
            persona=self.http.as_admin))


class RefusedTest(MigrateTestCase):

    def test_migrate_without_destination_space_keeps_volume(self):
        self.other_store.total_gb = 2
        self.other.report()
        volume_id = self.written(size=3)
        self.assert_status(202, self.migrate(volume_id))
        self.assertEqual(('available', 'error'), self.migstat(volume_id))
        [(event, text)] = self.messages(volume_id)
        self.assertEqual('VOLUME_VOLUME_056_003', event)
        self.assert_at(http.POOL, volume_id, 3)
        self.other_store.total_gb = 3
        self.other.report()
        self.assert_status(202, self.migrate(volume_id))
        self.clean()
        self.assert_at(moves.OTHER_POOL, volume_id, 3)

    def test_migrate_faults_keep_volume_at_source(self):
        for side, method in (('other', 'create'), ('other', 'delete'), ('other', 'disk'),
                             ('own', 'disk')):
            for fault in (faults.Fault.REFUSED, faults.Fault.UNCERTAIN_BEFORE,
                          faults.Fault.UNCERTAIN_AFTER):
                with self.subTest(side, method=method, fault=fault):
                    volume_id = self.written()
                    before = self.allocated()
                    store = self.store if side == 'own' else self.other_store
                    store.faults.plan(method, fault)
                    self.assert_status(202, self.migrate(volume_id))
                    self.assertEqual(('available', 'error'), self.migstat(volume_id))
                    self.clean()
                    self.assert_at(http.POOL, volume_id)
                    self.assertEqual(before, self.allocated())
                    self.assertEqual({'VOLUME_VOLUME_056_056', 'VOLUME_VOLUME_056_003'},
                                     {event for event, _ in self.messages(volume_id)})
                    self.assert_status(202, self.migrate(volume_id))
                    self.clean()
                    self.assert_at(moves.OTHER_POOL, volume_id)
