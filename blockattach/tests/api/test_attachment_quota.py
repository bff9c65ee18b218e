"""Attachment quota of a project: a request beyond it is refused and changes nothing."""
import dataclasses
import tempfile

from oslo_config import cfg

from blockattach.storage.conf import quota as quota_conf
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

LIMIT = 2
MOST = 2**31 - 1
ASKED = {'version': '3.71, blockattach 1.3'}
EARLIER = {'version': '3.71, blockattach 1.2'}
OVER = f'/os-quota-sets/{http.PROJECT}'


class QuotaTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.http.database.quota = dataclasses.replace(quota_conf.NONE, quota_attachments=LIMIT)
        self.volume_id = self.volume(multiattach=True)
        self.ids = [self.reserve(self.volume_id, base.new_id()) for _ in range(LIMIT)]

    def ways(self, volume_id):
        """Yield each request that creates an attachment or reserves the volume, by its name."""
        def act(action, value=None):
            return self.http.as_member.post(f'/volumes/{volume_id}/action', {action: value})
        for connector in (None, make.connector()):
            yield 'create', lambda connector=connector: self.http.as_member.post(
                '/attachments', {'attachment': {'volume_uuid': volume_id,
                                                'connector': connector}})
        yield 'reserve', lambda: act('os-reserve')
        yield 'attach', lambda: act('os-attach', {'instance_uuid': base.new_id(),
                                                  'mountpoint': '/dev/vdb'})
        yield 'initialize_connection', lambda: act('os-initialize_connection',
                                                   {'connector': make.connector()})

    def test_attachment_beyond_quota_rejected(self):
        other = self.volume()
        for way, send in self.ways(other):
            with self.subTest(way=way):
                reply = send()
                self.assert_status(413, reply)
                self.assertEqual({'overLimit': {
                    'code': 413, 'retryAfter': '0',
                    'message': f"AttachmentLimitExceeded: Maximum number of attachments allowed "
                               f"({LIMIT}) exceeded for quota 'attachments'."}}, reply.body)
                self.assertEqual('0', reply.headers['Retry-After'])
                self.assertEqual('available', self.shown(other)['status'])
        self.assertEqual(set(self.ids), {
            one['id'] for one in self.http.as_member.get('/attachments').body['attachments']})

    def test_deleted_attachment_frees_quota(self):
        for way, send in self.ways(self.volume_id):
            with self.subTest(way=way):
                self.assert_status(413, send())
                self.assert_status(200, self.http.as_member.delete(
                    f'/attachments/{self.ids.pop()}'))
                self.assertLess(send().status, 300)
                self.assert_status(202, self.http.as_admin.post(
                    f'/volumes/{self.volume_id}/action',
                    {'os-reset_status': {'attach_status': 'detached'}}))
                self.ids = [self.reserve(self.volume_id, base.new_id()) for _ in range(LIMIT)]

    def test_connect_and_complete_need_no_quota(self):
        self.connect(self.ids[0])
        self.complete(self.ids[0])

    def test_attachment_quota_counted_per_project(self):
        stranger = self.http.as_stranger
        made = stranger.post('/volumes', {'volume': {'size': 1}}).body['volume']['id']
        self.assert_status(200, stranger.post('/attachments', {
            'attachment': {'volume_uuid': made}}))

    def test_admin_attachment_counts_against_volume_project(self):
        self.assert_status(413, self.http.as_admin.post(
            '/attachments', {'attachment': {'volume_uuid': self.volume_id}}))

    def test_idempotent_repeat_needs_no_quota(self):
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{self.ids[0]}'))
        body = {'attachment': {'volume_uuid': self.volume_id, 'instance_uuid': base.SERVER}}
        first, again = (self.http.as_member.post('/attachments', body, **{'Idempotency-Key': 'k'})
                        for _ in range(2))
        self.assert_status(200, first)
        self.assertEqual((200, first.body), (again.status, again.body))

    def test_project_attachment_quota_overrides_default(self):
        admin = self.http.as_admin
        self.assertEqual(3, admin.put(
            OVER, {'quota_set': {'attachments': 3}}, **ASKED).body['quota_set']['attachments'])
        self.assertEqual(3, self.attachments(self.http.as_reader.get(OVER, **ASKED)))
        self.reserve(self.volume_id, base.new_id())
        self.assert_status(413, self.http.as_member.post(
            '/attachments', {'attachment': {'volume_uuid': self.volume_id}}))
        self.assertEqual({'limit': 3, 'in_use': 3, 'reserved': 0},
                         self.attachments(admin.get(f'{OVER}?usage=True', **ASKED)))
        self.assertEqual(LIMIT, self.attachments(admin.get(f'{OVER}/defaults', **ASKED)))
        # Unlike other quotas, this one may be set below the current usage.
        self.assert_status(200, admin.put(OVER, {'quota_set': {'attachments': 1}}, **ASKED))
        reply = admin.delete(OVER, **ASKED)
        self.assert_status(200, reply)
        self.assertEqual(LIMIT, self.attachments(admin.get(OVER, **ASKED)))

    def attachments(self, reply):
        self.assertEqual(http.PROJECT, reply.body['quota_set']['id'])
        return reply.body['quota_set']['attachments']

    def test_limits_show_attachment_quota(self):
        shown = self.http.as_member.get('/limits', **ASKED).body['limits']['absolute']
        self.assertEqual((LIMIT, 2), (shown['maxTotalAttachments'],
                                      shown['totalAttachmentsUsed']))
        for headers in ({}, EARLIER):
            self.assertFalse([name for name in self.http.as_member.get(
                '/limits', **headers).body['limits']['absolute'] if 'Attachment' in name])

    def test_invalid_attachment_quota_rejected(self):
        for bad in (None, {}, {'attachments': -2}, {'attachments': MOST + 1},
                    {'attachments': 'x'}, {'attachments': None}):
            with self.subTest(bad=bad):
                self.assert_status(400, self.http.as_admin.put(
                    OVER, {'quota_set': bad}, **ASKED))
        self.assert_status(400, self.http.as_admin.put(
            f'/os-quota-sets/{"p" * 256}', {'quota_set': {'attachments': 1}}, **ASKED))

    def test_attachment_quota_hidden_without_extension(self):
        of_class = '/os-quota-class-sets/default'
        for headers in ({}, EARLIER):
            for path, key in ((OVER, 'quota_set'), (f'{OVER}/defaults', 'quota_set'),
                              (of_class, 'quota_class_set')):
                self.assertNotIn('attachments', self.http.as_admin.get(
                    path, **headers).body[key])
            for path, key in ((OVER, 'quota_set'), (of_class, 'quota_class_set')):
                self.assert_fault(400, 'Bad key(s)', self.http.as_admin.put(
                    path, {key: {'attachments': 1}}, **headers))
        self.assertEqual(7, self.http.as_admin.put(of_class, {'quota_class_set': {
            'attachments': 7}}, **ASKED).body['quota_class_set']['attachments'])
        self.assertEqual(7, self.attachments(self.http.as_admin.get(OVER, **ASKED)))


class DefaultTest(base.ApiTestCase):

    def test_default_attachment_quota_10000(self):
        self.assertEqual(10000, quota_conf.QuotaSettings().quota_attachments)
        conf = cfg.ConfigOpts()
        conf.register_opts(quota_conf.OPTS, group=quota_conf.GROUP)
        conf([])
        self.assertEqual(quota_conf.QuotaSettings(), quota_conf.settings(conf))

    def test_quota_attachments_read_from_deprecated_group(self):
        file = self.enterContext(tempfile.NamedTemporaryFile('w', suffix='.conf'))
        file.write('[control]\nquota_attachments = 7\n')
        file.flush()
        conf = cfg.ConfigOpts()
        conf.register_opts(quota_conf.OPTS, group=quota_conf.GROUP)
        conf(['--config-file', file.name])
        self.assertEqual(7, quota_conf.settings(conf).quota_attachments)
