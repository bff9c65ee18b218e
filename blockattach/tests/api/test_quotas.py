"""Quotas of volumes, gigabytes and types: show, update, and rejection beyond them."""
import dataclasses
import uuid

from blockattach.platform import errors
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.db import models
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

OVER = f'/os-quota-sets/{http.PROJECT}'
CLASS = '/os-quota-class-sets/default'
DEFAULTS = {'volumes': 10, 'snapshots': 10, 'gigabytes': 1000, 'per_volume_gigabytes': -1,
            'backups': 10, 'backup_gigabytes': 1000, 'groups': 10}
OF_TYPE = {f'{name}___DEFAULT__': -1 for name in ('volumes', 'gigabytes', 'snapshots')}
MOST = 2**31 - 1


class Case(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.http.database.quota = quota_conf.QuotaSettings()

    def change(self, path=OVER, status=200, **limits):
        key = 'quota_class_set' if path == CLASS else 'quota_set'
        reply = self.http.as_admin.put(path, {key: limits})
        self.assert_status(status, reply)
        return reply.body.get(key)

    def shown(self, query='', persona=None):
        reply = (persona or self.http.as_admin).get(f'{OVER}{query}')
        self.assert_status(200, reply)
        return reply.body['quota_set']

    def create(self, size=1, persona=None, **fields):
        return (persona or self.http.as_member).post('/volumes', {'volume': {
            'size': size, **fields}})

    def snapshot(self, volume_id, status='available'):
        """Insert the row of a snapshot."""
        made = self.http.as_admin.get(f'/volumes/{volume_id}').body['volume']
        snapshot_id = str(uuid.uuid4())
        with self.http.database.writer() as connection:
            row = connection.execute(models.volumes.select().where(
                models.volumes.c.id == volume_id)).one()
            connection.execute(models.snapshots.insert().values(
                id=snapshot_id, volume_id=volume_id, project_id=row.project_id,
                user_id=row.user_id, size_gb=made['size'], status=status,
                volume_type_id=row.volume_type_id, availability_zone='nova',
                created_at=row.created_at))
        return snapshot_id

    def assert_exceeded(self, message, reply):
        self.assert_status(413, reply)
        self.assertEqual({'overLimit': {'code': 413, 'retryAfter': '0', 'message': message}},
                         reply.body)
        self.assertEqual('0', reply.headers['Retry-After'])


class QuotaSetTest(Case):

    def test_quota_set_defaults(self):
        for persona in (self.http.as_admin, self.http.as_reader):
            for path in (OVER, f'{OVER}/defaults'):
                for version in (None, '3.71'):
                    self.assertEqual(
                        {'quota_set': {'id': http.PROJECT, **DEFAULTS, **OF_TYPE}},
                        persona.get(path, version=version).body)

    def test_update_quota_set_of_project(self):
        changed = self.change(volumes=3, gigabytes='7', volumes___DEFAULT__=2, groups=-1,
                              id='any', tenant_id='any')
        expected = {**DEFAULTS, **OF_TYPE, 'volumes': 3, 'gigabytes': 7, 'groups': -1,
                    'volumes___DEFAULT__': 2}
        self.assertEqual(expected, changed)
        self.assertEqual({'id': http.PROJECT, **expected}, self.shown())
        self.assertEqual({**DEFAULTS, **OF_TYPE}, {
            name: value for name, value in self.http.as_admin.get(
                f'{OVER}/defaults').body['quota_set'].items() if name != 'id'})
        self.assert_status(200, self.http.as_admin.delete(OVER))
        self.assertEqual({'id': http.PROJECT, **DEFAULTS, **OF_TYPE}, self.shown())

    def test_quota_set_usage(self):
        volume_id = self.volume(size=3)
        self.snapshot(volume_id)
        self.change(volumes=4)
        shown = self.shown('?usage=true')
        for name, limit, in_use in (
                ('volumes', 4, 1), ('gigabytes', 1000, 6), ('snapshots', 10, 1),
                ('volumes___DEFAULT__', -1, 1), ('gigabytes___DEFAULT__', -1, 6),
                ('snapshots___DEFAULT__', -1, 1), ('per_volume_gigabytes', -1, 0),
                ('backups', 10, 0), ('groups', 10, 0)):
            self.assertEqual({'limit': limit, 'in_use': in_use, 'reserved': 0}, shown[name])
        self.assertEqual(4, self.shown('?usage=false')['volumes'])
        self.assert_status(400, self.http.as_admin.get(f'{OVER}?usage=perhaps'))

    def test_invalid_quota_set_rejected(self):
        for bad in (None, {}, 3, [], {'volumes': -2}, {'volumes': MOST + 1}, {'volumes': None},
                    {'volumes': 'x'}, {'volumes': ''}, {'volumes': 1.5}, {'volumes': True},
                    {'volumes': {}}, {'volumes': '\u0663'}, {'volumes': '9' * 5000}):
            with self.subTest(bad=bad):
                self.assert_status(400, self.http.as_admin.put(OVER, {'quota_set': bad}))
        for bad in ({'quota_set': {'volumes': 1}, 'more': 1}, {'quota': {}}, {}):
            self.assert_status(400, self.http.as_admin.put(OVER, bad))
        for key, path in (('quota_set', OVER), ('quota_class_set', CLASS)):
            self.assert_fault(
                400, f'Bad key(s) in {key.replace("_", " ")}: colours, volumes_none',
                self.http.as_admin.put(path, {key: {
                    'colours': 1, 'volumes': 5, 'volumes_none': 2}}))
        for path in (f'/os-quota-sets/{"p" * 256}', f'/os-quota-class-sets/{"p" * 256}'):
            key = 'quota_set' if 'quota-sets' in path else 'quota_class_set'
            self.assert_status(400, self.http.as_admin.put(path, {key: {'volumes': 1}}))
        self.assertEqual({'id': http.PROJECT, **DEFAULTS, **OF_TYPE}, self.shown())

    def test_quota_below_usage_rejected(self):
        """As in Cinder, the check applies only to a limit that was set before."""
        for _ in range(3):
            self.volume()
        self.change(volumes=2)
        self.assert_fault(
            400, 'Quota volumes limit must be equal or greater than existing resources. Current '
                 'usage is 3 and the requested limit is 1.',
            self.http.as_admin.put(OVER, {'quota_set': {'volumes': 1}}))
        self.assertEqual(2, self.shown()['volumes'])
        for fine in (3, -1, 4):
            self.change(volumes=fine)

    def test_quotas_of_private_types_hidden(self):
        kind = make.volume_type(self.http.database, 'hidden', is_public=False)
        name = 'volumes_hidden'
        self.assertIn(name, self.shown())
        for path in (OVER, f'{OVER}/defaults'):
            self.assertNotIn(name, self.http.as_member.get(path).body['quota_set'])
        with self.http.database.writer() as connection:
            connection.execute(models.volume_type_projects.insert().values(
                volume_type_id=kind.id, project_id=http.PROJECT,
                created_at=self.http.database.clock.utcnow()))
        self.assertIn(name, self.shown(persona=self.http.as_member))


class ClassTest(Case):

    def test_default_quota_class_applies_to_projects(self):
        self.assertEqual({**DEFAULTS, **OF_TYPE, 'volumes': 2, 'gigabytes___DEFAULT__': 5},
                         self.change(CLASS, volumes=2, gigabytes___DEFAULT__='5'))
        shown = self.http.as_admin.get(CLASS).body['quota_class_set']
        self.assertEqual(('default', 2, 5), (shown['id'], shown['volumes'],
                                             shown['gigabytes___DEFAULT__']))
        self.assertEqual((2, 1000), (self.shown()['volumes'], self.shown()['gigabytes']))
        self.change(volumes=3)
        self.assertEqual(3, self.shown()['volumes'])
        self.assertEqual(2, self.http.as_admin.get(
            f'{OVER}/defaults').body['quota_set']['volumes'])
        self.assert_status(202, self.create(5))
        self.assert_exceeded(
            'VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed '
            'gigabytes___DEFAULT__ quota. Requested 1G, quota is 5G and 5G has been consumed.',
            self.create(1))

    def test_default_quota_class_disabled_by_option(self):
        self.change(CLASS, volumes=2)
        self.http.database.quota = quota_conf.QuotaSettings(use_default_quota_class=False)
        self.assertEqual(10, self.shown()['volumes'])

    def test_other_quota_class_stored_but_unused(self):
        self.change(CLASS, snapshots=7)
        path = '/os-quota-class-sets/gold'
        reply = self.http.as_admin.put(path, {'quota_class_set': {'volumes': 99}})
        self.assertEqual({**DEFAULTS, **OF_TYPE, 'volumes': 99, 'snapshots': 7},
                         reply.body['quota_class_set'])
        self.assertEqual(10, self.shown()['volumes'])
        self.assert_status(200, self.http.as_admin.put(path, {'quota_class_set': {}}))


class ExceededTest(Case):

    def test_create_beyond_volumes_quota_rejected(self):
        self.change(volumes=2)
        for _ in range(2):
            self.volume()
        for persona in (self.http.as_member, self.http.as_admin):
            self.assert_exceeded('VolumeLimitExceeded: Maximum number of volumes allowed (2) '
                                 "exceeded for quota 'volumes'.", self.create(persona=persona))
        self.assertEqual(2, len(self.http.as_member.get('/volumes').body['volumes']))
        self.assert_status(202, self.create(persona=self.http.as_stranger))

    def test_gigabytes_quota_checked_before_volumes_quota(self):
        self.change(volumes=0, gigabytes=3)
        self.assert_exceeded(
            'VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed '
            'gigabytes quota. Requested 4G, quota is 3G and 0G has been consumed.',
            self.create(4))

    def test_create_beyond_per_volume_quota_rejected(self):
        self.change(per_volume_gigabytes=3)
        self.assert_exceeded('VolumeSizeExceedsLimit: Requested volume size 4G is larger than '
                             'maximum allowed limit 3G.', self.create(4))
        self.assert_status(202, self.create(3))

    def test_idempotency_key_freed_after_quota_rejection(self):
        self.change(volumes=0)
        body = {'volume': {'size': 1}}
        named = {'Idempotency-Key': 'k'}
        self.assert_status(413, self.http.as_member.post('/volumes', body, **named))
        self.change(volumes=1)
        first, again = (self.http.as_member.post('/volumes', body, **named) for _ in range(2))
        self.assert_status(202, first)
        self.assertEqual(first.body['volume']['id'], again.body['volume']['id'])


class LimitsTest(Case):

    def absolute(self, query='', version='3.71'):
        return self.http.as_admin.get(f'/limits{query}', version=version).body['limits'][
            'absolute']

    def test_limits_show_quotas_and_usage(self):
        self.snapshot(self.volume(size=2))
        self.change(volumes=4)
        shown = self.absolute()
        self.assertEqual({
            'maxTotalVolumes': 4, 'maxTotalVolumeGigabytes': 1000, 'maxTotalSnapshots': 10,
            'maxTotalBackups': 10, 'maxTotalBackupGigabytes': 1000, 'totalVolumesUsed': 1,
            'totalGigabytesUsed': 4, 'totalSnapshotsUsed': 1, 'totalBackupsUsed': 0,
            'totalBackupGigabytesUsed': 0}, shown)
        for query in (f'?project_id={http.OTHER_PROJECT}', f'?tenant_id={http.OTHER_PROJECT}'):
            self.assertEqual((10, 0), (self.absolute(query)['maxTotalVolumes'],
                                       self.absolute(query)['totalVolumesUsed']))
            self.assertEqual(shown, self.absolute(query, '3.38'))

    def test_no_snapshot_gb_quota_excludes_snapshots(self):
        self.http.database.quota = dataclasses.replace(
            quota_conf.QuotaSettings(), no_snapshot_gb_quota=True)
        self.snapshot(self.volume(size=2))
        self.assertEqual(2, self.absolute()['totalGigabytesUsed'])


class UnifiedLimitsTest(Case):
    """Unified limits of Keystone."""

    def setUp(self):
        super().setUp()
        self.kept = {}
        self.http.database.limit_source = lambda project_id: self.kept.get(project_id, {})

    def test_unified_limits_enforced_and_shown(self):
        self.kept[http.PROJECT] = {'volumes': 1, 'gigabytes___DEFAULT__': 7, 'cores': 3,
                                   'volumes_none': 0}
        for name, limit in (('volumes', 1), ('gigabytes___DEFAULT__', 7), ('gigabytes', 1000)):
            self.assertEqual(limit, self.shown()[name])
        self.assertEqual(10, self.http.as_admin.get(
            f'{OVER}/defaults').body['quota_set']['volumes'])
        self.assertEqual(1, self.http.as_member.get('/limits').body['limits']['absolute'][
            'maxTotalVolumes'])
        self.volume(size=7)
        self.assert_status(413, self.create())
        self.kept[http.PROJECT]['volumes'] = 2
        self.assert_status(413, self.create())
        self.kept[http.PROJECT]['gigabytes___DEFAULT__'] = 8
        self.assert_status(202, self.create())

    def test_unified_limit_of_attachments_enforced(self):
        volume_id = self.volume()
        self.kept[http.PROJECT] = {'attachments': 0}
        self.assert_status(413, self.http.as_member.post('/attachments', {
            'attachment': {'volume_uuid': volume_id}}))

    def test_update_of_quotas_forbidden_with_unified_limits(self):
        for act in (lambda: self.http.as_admin.put(OVER, {'quota_set': {'volumes': 1}}),
                    lambda: self.http.as_admin.delete(OVER),
                    lambda: self.http.as_admin.put(CLASS, {'quota_class_set': {'volumes': 1}})):
            self.assert_fault(403, 'unified limits in Keystone', act())

    def test_create_unavailable_without_unified_limits(self):
        def silent(_):
            raise errors.LimitsUnavailable
        self.http.database.limit_source = silent
        for reply in (self.create(), self.http.as_member.get('/limits'),
                      self.http.as_member.get(OVER)):
            self.assert_status(503, reply)
            self.assertEqual('1', reply.headers['Retry-After'])
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])
