"""Base class of tests of snapshots."""
from blockattach.storage.domain import invariants
from blockattach.storage.volume import checker
from blockattach.tests.api import actions
from blockattach.tests.fixtures import http


class SnapshotsTestCase(actions.ActionsTestCase):

    def snapshot(self, volume_id, version=http.LATEST, persona=None, **fields):
        """Create a snapshot and return it as the response shows it.

        The backend creates the snapshot before the response is sent.
        """
        reply = (persona or self.http.as_member).post(
            '/snapshots', {'snapshot': {'volume_id': volume_id, **fields}}, version=version)
        self.assert_status(202, reply)
        return reply.body['snapshot']

    def seen(self, snapshot_id):
        reply = self.http.as_admin.get(f'/snapshots/{snapshot_id}')
        return reply.body['snapshot'] if reply.status == 200 else None

    def snapshot_status(self, snapshot_id):
        """Return the status of a snapshot, or 'gone' if it does not exist."""
        found = self.seen(snapshot_id)
        return 'gone' if found is None else found['status']

    def act_on(self, snapshot_id, action, value=None, persona=None):
        return (persona or self.http.as_admin).post(
            f'/snapshots/{snapshot_id}/action', {action: value})

    @property
    def store(self):
        return self.http.manager.backend.fake_store

    def kept(self):
        """Return the ids of the snapshots in the store."""
        return {name.removeprefix('snapshot-') for name in self.store.sizes()
                if name.startswith('snapshot-')}

    def messages(self):
        return [(one['event_id'], one['resource_uuid']) for one in
                self.http.as_member.get('/messages').body['messages']]

    def assert_sound(self):
        """Check the invariants of all rows and of the target."""
        facts = checker.Checker(self.http.database, {
            http.HOST: self.http.manager.backend.fake_target}).facts()
        self.assertEqual([], [one.said for one in invariants.check(facts)])
