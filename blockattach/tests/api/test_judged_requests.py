"""Requests that were authorized before the volume was transferred, deleted, retyped or reset.

Every verb of `rules.JUDGED_VERBS` meets every verb of `PARTNERS`, in both orders: the second one
runs as a whole between the judgement of the first one and its transaction. The gate plays all of
them on SQLite, and on the servers one request for each verb, with the first partner; the layer
``exhaustive`` of ``tools/explore`` plays all.
"""
import unittest

from blockattach.platform import failpoints
from blockattach.storage.db import models
from blockattach.storage.policy import rules
from blockattach.storage.volume import checker
from blockattach.tests.api import base
from blockattach.tests.api import test_transfers
from blockattach.tests.db import base as db_base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make

OTHER_HOST = 'storage-1@other'
KEEP = {'updated_at'}
# Services report to this table at any time.
REPORTED = {'pools', 'services', 'leases'}


def action(name, value=None, persona='as_member', noun='volume', version=http.LATEST):
    """Return a request that is an action on the volume or its snapshot."""
    def send(test, made):
        return getattr(test.http, persona).post(
            f'/{noun}s/{made[noun]}/action', {name: value}, version=version)
    return send


def post(path, wrapper, persona='as_member', **fields):
    """Return a POST request. The values of ``fields`` name prepared objects."""
    def send(test, made):
        return getattr(test.http, persona).post(path.format(**made), {wrapper: {
            key: made.get(value, value) if isinstance(value, str) else value
            for key, value in fields.items()}})
    return send


def put(path, wrapper, **fields):
    return lambda test, made: test.http.as_member.put(path.format(**made), {wrapper: fields})


def delete(path):
    return lambda test, made: test.http.as_member.delete(path.format(**made))


def to_other_type(test, made):
    """Retype the volume to a type made for the purpose."""
    return test.http.as_admin.post(f'/volumes/{made["volume"]}/action', {'os-retype': {
        'new_type': make.volume_type(test.http.database).name, 'migration_policy': 'on-demand'}})


CONNECTOR = make.connector()
# Preparation that each request needs, and the requests that reach each verb.
ATTACHED, ANNOUNCED, SNAPSHOT, NOTHING = 'attached', 'announced', 'snapshot', ''
REQUESTS = {
    'attachments.reserve': (NOTHING, (
        post('/attachments', 'attachment', volume_uuid='volume', instance_uuid=base.SERVER),
        post('/attachments', 'attachment', volume_uuid='volume', instance_uuid=base.SERVER,
             connector=CONNECTOR),
        action('os-reserve'),
        action('os-attach', {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb'}))),
    'detaches.announce': (ATTACHED, (action('os-begin_detaching'),)),
    'detaches.cancel': (ANNOUNCED, (action('os-roll_detaching'),)),
    'extending.start': (NOTHING, (action('os-extend', {'new_size': 2}),)),
    'moving.migrate': (NOTHING, (
        action('os-migrate_volume', {'host': OTHER_HOST}, persona='as_admin'),)),
    'moving.retype': (NOTHING, (to_other_type,)),
    'resets.reset_status': (NOTHING, (
        action('os-reset_status', {'status': 'error'}, persona='as_admin'),)),
    'reverts.start': (SNAPSHOT, (
        lambda test, made: test.http.as_member.post(
            f'/volumes/{made["volume"]}/action', {'revert': {'snapshot_id': made['snapshot']}}),)),
    'snapshots.change_metadata': (SNAPSHOT, (
        post('/snapshots/{snapshot}/metadata', 'metadata', key='text'),)),
    'snapshots.create': (NOTHING, (post('/snapshots', 'snapshot', volume_id='volume'),)),
    'snapshots.reset_status': (SNAPSHOT, (
        action('os-reset_status', {'status': 'error'}, 'as_admin', 'snapshot'),)),
    'snapshots.start_delete': (SNAPSHOT, (delete('/snapshots/{snapshot}'),)),
    'snapshots.state_status': (SNAPSHOT, (
        action('os-update_snapshot_status', {'status': 'available'}, 'as_admin', 'snapshot'),)),
    'snapshots.unmanage': (SNAPSHOT, (action('os-unmanage', None, 'as_admin', 'snapshot'),)),
    'snapshots.update': (SNAPSHOT, (put('/snapshots/{snapshot}', 'snapshot', name='new'),)),
    test_transfers.CREATE: (NOTHING, (test_transfers.offer,)),
    'unmanaging.start': (NOTHING, (action('os-unmanage', persona='as_admin'),)),
    'volume_images.start_reimage': (NOTHING, (
        lambda test, made: test.http.as_member.post(
            f'/volumes/{made["volume"]}/action', {'os-reimage': {'image_id': test.image()}}),)),
    'volume_images.start_upload': (NOTHING, (
        action('os-volume_upload_image', {'image_name': 'mine'}),)),
    'volumes.change_image_metadata': (NOTHING, (
        action('os-set_image_metadata', {'metadata': {'key': 'text'}}),)),
    'volumes.change_metadata': (NOTHING, (
        post('/volumes/{volume}/metadata', 'metadata', key='text'),)),
    'volumes.create': (SNAPSHOT, (
        post('/volumes', 'volume', size=1, source_volid='volume'),
        post('/volumes', 'volume', size=1, snapshot_id='snapshot'))),
    'volumes.set_readonly': (NOTHING, (
        action('os-update_readonly_flag', {'readonly': True}),)),
    'volumes.start_delete': (NOTHING, (delete('/volumes/{volume}'),)),
    'volumes.update': (NOTHING, (
        put('/volumes/{volume}', 'volume', name='new'),
        action('os-set_bootable', {'bootable': True}))),
}


class Partner:
    """Request that changes the volume while another request waits.

    :cvar verb: name of the verb in whose transaction the partner's request waits
    """

    @staticmethod
    def prepare(test, made):
        """End all uses of the volume."""
        test.free(made)


class Offer(Partner):
    """Change of the project that owns the volume, after its uses have ended."""

    verb = test_transfers.ACCEPT

    @staticmethod
    def prepare(test, made):
        Partner.prepare(test, made)
        made['offer'] = test_transfers.offer(test, made)

    @staticmethod
    def act(test, made):
        return test_transfers.accept(test, made['offer'])


class Deletion(Partner):
    """Deletion of the volume with its snapshots."""

    verb = 'volumes.start_delete'

    @staticmethod
    def act(test, made):
        return test.http.as_member.delete(f'/volumes/{made["volume"]}?cascade=true')


class Retype(Partner):

    verb = 'moving.retype'

    act = staticmethod(to_other_type)


class Reset(Partner):

    verb = 'resets.reset_status'

    @staticmethod
    def act(test, made):
        return test.http.as_admin.post(f'/volumes/{made["volume"]}/action', {
            'os-reset_status': {'status': 'error'}})


PARTNERS = (Offer, Deletion, Retype, Reset)
# A deleted or transferred volume does not exist for a request that was authorized before.
LEAVES = (Offer, Deletion)


class JudgedRequestsTest(base.ApiTestCase):

    KIND = database.SQLITE

    def setUp(self):
        db_base.need(self.KIND)
        self.glance = glance.GlanceStandIn()
        self.addCleanup(self.glance.close)
        super().setUp()
        self.http.close()
        self.http = http.ApiFixture(kind=self.KIND, options={
            'glance': {'endpoint_override': self.glance.url, 'num_retries': 0}})
        self.addCleanup(self.http.close)
        self.other = in_process.Manager(self.http.deployment, OTHER_HOST)

    def image(self):
        return self.glance.add(b'bytes')

    def prepared(self, needs):
        """Create a volume on the first backend, with the resources that the request needs."""
        self.sql(f"UPDATE services SET disabled = {self.true} WHERE host = '{OTHER_HOST}'")
        made = {'volume': self.volume()}
        self.sql(f"UPDATE services SET disabled = {self.false} WHERE host = '{OTHER_HOST}'")
        if needs in (ATTACHED, ANNOUNCED):
            made['attachment'] = self.attached(made['volume'])
        if needs == ANNOUNCED:
            action('os-begin_detaching')(self, made)
        if needs == SNAPSHOT:
            reply = self.http.as_member.post(
                '/snapshots', {'snapshot': {'volume_id': made['volume']}})
            made['snapshot'] = reply.body['snapshot']['id']
        return made

    @property
    def true(self):
        return 'true' if self.KIND == database.POSTGRESQL else '1'

    @property
    def false(self):
        return 'false' if self.KIND == database.POSTGRESQL else '0'

    def free(self, made):
        """End every attachment of the volume."""
        for one in self.http.as_admin.get(
                f'/attachments?all_tenants=1&volume_id={made["volume"]}').body['attachments']:
            self.assert_status(200, self.http.as_admin.delete(f'/attachments/{one["id"]}'))

    def rows(self):
        """Return the stored rows of every table that the requests change."""
        with self.http.database.reader() as connection:
            return {table.name: [
                {key: value for key, value in row._mapping.items() if key not in KEEP}
                for row in connection.execute(table.select().order_by(*table.primary_key))]
                for table in models.metadata.sorted_tables if table.name not in REPORTED}

    def meet(self, first, second, verb):
        """Send a request whose transaction waits until another one has been answered."""
        replies = []

        def pause():
            failpoints.disarm(point)
            replies.append(second())
            replies.append(self.rows())

        point = f'db.{verb}.before'
        failpoints.arm(point, pause)
        self.addCleanup(failpoints.disarm, point)
        reply = first()
        self.assertEqual(2, len(replies), f'{verb} was not reached: {reply.status} {reply.text}')
        return reply, *replies

    def assert_whole(self, *replies):
        for reply in replies:
            self.assertLess(reply.status, 500, reply.text)
        found = checker.Checker(self.http.database, {
            http.HOST: self.http.manager.backend.fake_target,
            OTHER_HOST: self.other.backend.fake_target}).violations()
        self.assertEqual([], [str(one) for one in found])

    def play(self, verb):
        needs, requests = REQUESTS[verb]
        whole = self.KIND == database.SQLITE or exhaustive.wanted()
        for partner in PARTNERS if whole else [Offer]:
            for number, request in enumerate(requests if whole else requests[:1]):
                with self.subTest(verb, number=number, partner=partner.__name__):
                    self.play_after(verb, needs, request, partner)
                if not whole:
                    continue
                with self.subTest(verb, number=number, partner=partner.__name__, first=True):
                    self.play_before(needs, request, partner)

    def play_after(self, verb, needs, request, partner):
        """Check a request whose transaction begins after the partner's request was answered."""
        made = self.prepared(needs)

        def act():
            partner.prepare(self, made)
            return partner.act(self, made)
        reply, answered, before = self.meet(lambda: request(self, made), act, verb)
        self.assert_status(202, answered)
        if partner in LEAVES:
            self.assert_status(404, reply)
            self.assertEqual(before, self.rows())
        self.assert_whole(reply, answered)

    def play_before(self, needs, request, partner):
        """Check a partner's request whose transaction begins after the other one has been
        answered.
        """
        made = self.prepared(needs)
        partner.prepare(self, made)
        reply, answered, before = self.meet(
            lambda: partner.act(self, made), lambda: request(self, made), partner.verb)
        if reply.status >= 400:
            self.assertEqual(before, self.rows())
        self.assert_whole(reply, answered)


@db_base.on_sqlite_and_servers_in_turn
class RetypedMeanwhileTest(base.ApiTestCase):
    """Attach of a volume that was retyped from multiattach after the request was authorized."""

    KIND = database.SQLITE

    def setUp(self):
        db_base.need(self.KIND)
        super().setUp()
        self.http.close()
        self.http = http.ApiFixture(kind=self.KIND)
        self.addCleanup(self.http.close)

    def test_attach_after_retype_to_plain_reserves_exclusively(self):
        volume_id = self.volume(multiattach=True)
        plain = make.volume_type(self.http.database)

        def retype():
            failpoints.disarm('db.attachments.reserve.before')
            self.assert_status(202, self.http.as_admin.post(f'/volumes/{volume_id}/action', {
                'os-retype': {'new_type': plain.name, 'migration_policy': 'never'}}))
            self.assertFalse(self.shown(volume_id)['multiattach'])
        failpoints.arm('db.attachments.reserve.before', retype)
        self.addCleanup(failpoints.disarm, 'db.attachments.reserve.before')
        self.reserve(volume_id)
        self.assert_status(400, self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.OTHER_SERVER}}))
        self.assertEqual([], checker.Checker(self.http.database, {
            http.HOST: self.http.manager.backend.fake_target}).violations())


class TableTest(unittest.TestCase):

    def test_every_judged_verb_has_requests(self):
        self.assertEqual(set(rules.JUDGED_VERBS), set(REQUESTS))


def _add(verb):
    def test(self):
        self.play(verb)
    test.__name__ = f'test_{verb.replace(".", "_")}_meets_each_partner'
    setattr(JudgedRequestsTest, test.__name__, test)


for _verb in REQUESTS:
    _add(_verb)
db_base.on_sqlite_and_servers_in_turn(JudgedRequestsTest)
