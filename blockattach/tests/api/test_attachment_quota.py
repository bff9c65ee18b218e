"""How many attachments a project may have: who wants more is told so, and nothing is changed."""
from blockattach.db import quotas
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

LIMIT = 2


class QuotaTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.http.database.attachment_quota = quotas.AttachmentQuota(LIMIT)
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
