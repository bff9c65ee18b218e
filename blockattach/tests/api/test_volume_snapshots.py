"""Snapshots of a volume: delete of the volume, cascade, and revert to the latest snapshot."""
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.api import snapshots
from blockattach.tests.fixtures import http

HELD = 'Invalid volume: Volume status must be available or error'


class DeleteTest(snapshots.SnapshotsTestCase):

    def delete(self, volume_id, query='', persona=None):
        return (persona or self.http.as_member).delete(f'/volumes/{volume_id}{query}')

    def assert_gone(self, volume_id):
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.store.sizes())
        self.assert_sound()

    def test_delete_of_volume_with_snapshots_rejected(self):
        volume_id = self.volume()
        made = self.snapshot(volume_id)
        for reply in (self.delete(volume_id), self.delete(volume_id, '?cascade=false'),
                      self.delete(volume_id, '?force=true', self.http.as_admin)):
            self.assert_fault(400, HELD, reply)
        self.assertEqual('available', self.status(volume_id))
        self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))
        self.assert_status(202, self.delete(volume_id))
        self.assert_gone(volume_id)

    def test_cascade_delete_removes_snapshots(self):
        volume_id = self.volume()
        made = [self.snapshot(volume_id)['id'] for _ in range(3)]
        self.store.faults.plan('create_snapshot', faults.Fault.REFUSED)
        made.append(self.snapshot(volume_id)['id'])
        self.http.hold = True
        self.assert_status(202, self.delete(volume_id, '?cascade=true'))
        self.assertEqual({'deleting'}, {self.snapshot_status(one) for one in made})
        self.assert_sound()
        for reply in (self.http.as_member.delete(f'/snapshots/{made[0]}'),
                      self.act_on(made[0], 'os-force_delete')):
            self.assert_status(400, reply)
        self.assert_fault(409, 'Retry when the operation has finished', self.act_on(
            made[0], 'os-reset_status', {'status': 'available'}))
        self.http.work.settle()
        self.assert_gone(volume_id)
        self.assertEqual({'gone'}, {self.snapshot_status(one) for one in made})

    def test_cascade_delete_rejected_by_snapshot_status(self):
        volume_id = self.volume()
        made = [self.snapshot(volume_id)['id'] for _ in range(2)]
        self.assert_status(202, self.act_on(made[1], 'os-reset_status', {'status': 'creating'}))
        self.assert_fault(400, HELD, self.delete(volume_id, '?cascade=true'))
        self.assertEqual(['available', 'creating'],
                         [self.snapshot_status(one) for one in made])
        self.assert_status(202, self.delete(volume_id, '?cascade=true&force=true',
                                            self.http.as_admin))
        self.assert_gone(volume_id)

    def test_force_cascade_delete_removes_creating_snapshot(self):
        volume_id = self.volume()
        self.http.hold = True
        made = self.snapshot(volume_id)['id']
        self.assert_status(202, self.delete(volume_id, '?cascade=true&force=true',
                                            self.http.as_admin))
        self.http.work.settle()
        self.assertEqual('gone', self.snapshot_status(made))
        self.assert_gone(volume_id)

    def test_cascade_delete_of_foreign_snapshots_needs_admin(self):
        volume_id = self.volume()
        others = http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT)
        self.snapshot(volume_id, persona=others)
        self.assert_fault(400, HELD, self.delete(volume_id, '?cascade=true'))
        self.assert_status(202, self.delete(volume_id, '?cascade=true', self.http.as_admin))
        self.assert_gone(volume_id)

    def test_refused_snapshot_delete_stops_cascade(self):
        volume_id = self.volume()
        made = [self.snapshot(volume_id)['id'] for _ in range(2)]
        self.store.faults.plan('delete_snapshot', faults.Fault.REFUSED)
        self.assert_status(202, self.delete(volume_id, '?cascade=true'))
        self.assertEqual('error_deleting', self.status(volume_id))
        self.assertEqual(['error_deleting'] * 2, [self.snapshot_status(one) for one in made])
        self.assert_sound()
        self.assert_status(202, self.delete(volume_id, '?cascade=true'))
        self.assert_gone(volume_id)


class RevertTest(snapshots.SnapshotsTestCase):

    def revert(self, volume_id, snapshot_id, **more):
        return self.http.as_member.post(
            f'/volumes/{volume_id}/action', {'revert': {'snapshot_id': snapshot_id}}, **more)

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume()

    def test_revert_to_latest_snapshot(self):
        older, latest = (self.snapshot(self.volume_id)['id'] for _ in range(2))
        self.http.hold = True
        self.assert_status(202, self.revert(self.volume_id, latest))
        self.assertEqual('reverting', self.status(self.volume_id))
        self.assert_sound()
        self.assert_fault(400, ' is reverting. Retry when',
                          self.http.as_member.delete(f'/snapshots/{latest}'))
        self.assert_status(400, self.http.as_member.post(
            '/snapshots', {'snapshot': {'volume_id': self.volume_id}}))
        self.assert_fault(409, 'Retry when the operation has finished', self.act(
            self.volume_id, 'os-reset_status', {'status': 'error'}, self.http.as_admin))
        self.http.work.settle()
        self.assertEqual('available', self.status(self.volume_id))
        self.assertEqual(1, self.store.faults.calls['revert'])
        self.assertEqual(['available'] * 2, [self.snapshot_status(one)
                                             for one in (older, latest)])
        self.assert_sound()

    def test_revert_to_other_snapshot_rejected(self):
        self.assert_fault(400, f"Volume {self.volume_id} doesn't have any snapshots.",
                          self.revert(self.volume_id, base.ABSENT))
        older, latest = (self.snapshot(self.volume_id)['id'] for _ in range(2))
        for snapshot_id in (older, base.ABSENT, None):
            self.assert_fault(400, f'Specified snapshot {snapshot_id} is None or not the latest '
                                   f'one of volume {self.volume_id}.',
                              self.revert(self.volume_id, snapshot_id))
        self.sql(f"UPDATE snapshots SET size_gb = 2 WHERE id = '{latest}'")
        self.assert_fault(400, 'The volume size must be equal to the snapshot size.',
                          self.revert(self.volume_id, latest))
        self.assertEqual('available', self.status(self.volume_id))

    def test_revert_needs_available_volume_and_snapshot(self):
        made = self.snapshot(self.volume_id)['id']
        attachment_id = self.attached(self.volume_id)
        self.assert_fault(409, "Volume's status must be 'available'",
                          self.revert(self.volume_id, made))
        self.assert_status(200, self.http.as_service.delete(f'/attachments/{attachment_id}'))
        self.act_on(made, 'os-reset_status', {'status': 'error'})
        self.assert_fault(409, "Snapshot's status must be 'available'",
                          self.revert(self.volume_id, made))

    def test_revert_rejected_before_3_40(self):
        made = self.snapshot(self.volume_id)['id']
        self.assert_status(404, self.revert(self.volume_id, made, version='3.39'))
        self.assert_status(400, self.http.as_member.post(
            f'/volumes/{self.volume_id}/action', {'revert': None}))
        self.assert_status(202, self.revert(self.volume_id, made, version='3.40'))

    def test_refused_revert_sets_error(self):
        made = self.snapshot(self.volume_id)['id']
        self.store.faults.plan('revert', faults.Fault.REFUSED)
        self.assert_status(202, self.revert(self.volume_id, made))
        self.assertEqual('error', self.status(self.volume_id))
        self.assertIn(('VOLUME_VOLUME_055_055', self.volume_id), self.messages())
        self.assert_sound()

    def test_force_delete_overtakes_revert(self):
        made = self.snapshot(self.volume_id)['id']
        self.http.hold = True
        self.assert_status(202, self.revert(self.volume_id, made))
        self.assert_status(202, self.http.as_admin.delete(
            f'/volumes/{self.volume_id}?force=true&cascade=true'))
        self.http.work.settle()
        self.assertEqual({}, self.store.sizes())
        self.assert_sound()
