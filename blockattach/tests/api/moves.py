"""Base class of tests of migrate and retype, with two backends of one host and one of another."""
from blockattach.storage.db.services import pools
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.api import actions
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process

OTHER = 'storage-1@other'
OTHER_POOL = f'{OTHER}#pool'
FAR = 'storage-2@fake'
PIECE = b'bytes of a user'


class MovesTestCase(actions.ActionsTestCase):

    OTHER_TARGET = fake_target.FakeTarget

    def setUp(self):
        super().setUp()
        self.other = in_process.Manager(self.http.deployment, OTHER, self.OTHER_TARGET)
        self.store = self.http.manager.backend.fake_store
        self.other_store = self.other.backend.fake_store

    def written(self, **fields):
        """Create a volume with data on the first backend and return its id."""
        self.sql(f"UPDATE services SET disabled = 1 WHERE host = '{OTHER}'")
        volume_id = self.volume(**fields)
        self.sql(f"UPDATE services SET disabled = 0 WHERE host = '{OTHER}'")
        self.store.contents(f'volume-{volume_id}')[0] = PIECE
        return volume_id

    def release(self):
        """Release held work, which continues with the next request."""
        self.http.hold = False
        self.http.as_member.get('/volumes')

    def allocated(self):
        """Return the allocated GiB of both pools."""
        return tuple(pools.get(self.http.database, name, in_process.DOWN_AFTER).allocated_gb
                     for name in (http.POOL, OTHER_POOL))

    def clean(self):
        """Run the pass of each volume manager, which removes leftovers."""
        for manager in (self.http.manager, self.other):
            manager.look()

    def messages(self, volume_id):
        return [(one['event_id'], one['user_message'])
                for one in self.http.as_member.get('/messages').body['messages']
                if one['resource_uuid'] == volume_id]

    def assert_at(self, pool, volume_id, size=1):
        """Check that the volume with its data is on the backend of the pool, and not on the other
        one.
        """
        self.assertEqual(pool, self.shown(volume_id)['os-vol-host-attr:host'])
        here, there = (self.store, self.other_store) if pool == http.POOL else (
            self.other_store, self.store)
        name = f'volume-{volume_id}'
        self.assertEqual((size, None), (here.sizes().get(name), there.sizes().get(name)))
        self.assertEqual(PIECE, here.contents(name).get(0))
