"""How many attachments a project may have: one more is refused, and nothing is changed."""
from oslo_config import cfg

from blockattach.conf import control as control_conf
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
        self.http.database.attachment_limit = LIMIT
        self.volume_id = self.volume(multiattach=True)
        self.ids = [self.reserve(self.volume_id, base.new_id()) for _ in range(LIMIT)]

    def ways(self, volume_id):
        """Every request that makes an attachment, or holds the volume for one."""
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

    def test_one_too_many(self):
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

    def test_what_goes_makes_room(self):
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

    def test_what_has_an_attachment_needs_no_other(self):
        self.connect(self.ids[0])
        self.complete(self.ids[0])

    def test_each_project_has_its_own(self):
        stranger = self.http.as_stranger
        made = stranger.post('/volumes', {'volume': {'size': 1}}).body['volume']['id']
        self.assert_status(200, stranger.post('/attachments', {
            'attachment': {'volume_uuid': made}}))

    def test_an_administrator_uses_up_the_owners(self):
        self.assert_status(413, self.http.as_admin.post(
            '/attachments', {'attachment': {'volume_uuid': self.volume_id}}))

    def test_a_repeat_of_what_was_made_is_no_other_one(self):
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{self.ids[0]}'))
        body = {'attachment': {'volume_uuid': self.volume_id, 'instance_uuid': base.SERVER}}
        first, again = (self.http.as_member.post('/attachments', body, **{'Idempotency-Key': 'k'})
                        for _ in range(2))
        self.assert_status(200, first)
        self.assertEqual((200, first.body), (again.status, again.body))

    def test_a_limit_of_its_own(self):
        admin = self.http.as_admin
        self.assertEqual({'quota_set': {'attachments': 3}}, admin.put(
            OVER, {'quota_set': {'attachments': 3}}, **ASKED).body)
        self.assertEqual({'quota_set': {'id': http.PROJECT, 'attachments': 3}},
                         self.http.as_reader.get(OVER, **ASKED).body)
        self.reserve(self.volume_id, base.new_id())
        self.assert_status(413, self.http.as_member.post(
            '/attachments', {'attachment': {'volume_uuid': self.volume_id}}))
        self.assertEqual(
            {'quota_set': {'id': http.PROJECT,
                           'attachments': {'limit': 3, 'in_use': 3, 'reserved': 0}}},
            admin.get(f'{OVER}?usage=True', **ASKED).body)
        self.assertEqual({'quota_set': {'id': http.PROJECT, 'attachments': LIMIT}},
                         admin.get(f'{OVER}/defaults', **ASKED).body)
        reply = admin.delete(OVER, **ASKED)
        self.assert_status(200, reply)
        self.assertEqual({'quota_set': {'id': http.PROJECT, 'attachments': LIMIT}},
                         admin.get(OVER, **ASKED).body)

    def test_limits(self):
        shown = self.http.as_member.get('/limits', **ASKED).body['limits']['absolute']
        self.assertEqual((LIMIT, 2), (shown['maxTotalAttachments'],
                                      shown['totalAttachmentsUsed']))
        for headers in ({}, EARLIER):
            self.assertFalse([name for name in self.http.as_member.get(
                '/limits', **headers).body['limits']['absolute'] if 'Attachment' in name])

    def test_permissions(self):
        change = {'quota_set': {'attachments': 5}}
        for client, show, write in (
                (self.http.as_reader, 200, 403), (self.http.as_member, 200, 403),
                (self.http.as_stranger, 403, 403), (self.http.as_admin, 200, 200)):
            self.assert_status(show, client.get(OVER, **ASKED))
            self.assert_status(show, client.get(f'{OVER}/defaults', **ASKED))
            self.assert_status(write, client.put(OVER, change, **ASKED))
            self.assert_status(write, client.delete(OVER, **ASKED))

    def test_what_is_no_limit(self):
        for bad in (None, {}, {'attachments': -2}, {'attachments': MOST + 1},
                    {'attachments': '7'}, {'attachments': None}, {'volumes': 1},
                    {'attachments': 1, 'volumes': 1}):
            with self.subTest(bad=bad):
                self.assert_status(400, self.http.as_admin.put(
                    OVER, {'quota_set': bad}, **ASKED))
        self.assert_status(400, self.http.as_admin.put(
            f'/os-quota-sets/{"p" * 256}', {'quota_set': {'attachments': 1}}, **ASKED))

    def test_unknown_without_the_extension(self):
        for headers in ({}, EARLIER):
            for reply in (self.http.as_admin.get(OVER, **headers),
                          self.http.as_admin.get(f'{OVER}/defaults', **headers),
                          self.http.as_admin.put(OVER, {}, **headers),
                          self.http.as_admin.delete(OVER, **headers)):
                self.assert_status(404, reply)


class DefaultTest(base.ApiTestCase):

    def test_ten_thousand(self):
        self.assertEqual(10000, control_conf.ControlSettings().quota_attachments)
        conf = cfg.ConfigOpts()
        conf.register_opts(control_conf.OPTS, group=control_conf.GROUP)
        conf([])
        self.assertEqual(10000, control_conf.settings(conf).quota_attachments)
