"""Base class of tests over HTTP: the API, resources to start with, and checks of faults."""
import logging
import unittest
import uuid

from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

ABSENT = '00000000-0000-4000-8000-000000000000'
SERVER = '11111111-1111-4111-8111-111111111111'
OTHER_SERVER = '22222222-2222-4222-8222-222222222222'

KEYS = {400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound', 409: 'conflictingRequest',
        500: 'computeFault', 504: 'computeFault'}


class ApiTestCase(unittest.TestCase):
    """Test with an API of its own, which gets ``SETTINGS``."""

    SETTINGS = {}

    def setUp(self):
        super().setUp()
        # Faults are planned here; what is logged of them is not this layer's matter.
        silent = logging.NullHandler()
        logging.getLogger('blockattach').addHandler(silent)
        self.addCleanup(logging.getLogger('blockattach').removeHandler, silent)
        self.http = http.ApiFixture(**self.SETTINGS)
        self.addCleanup(self.http.close)
        self._multiattach = None

    def sql(self, statement):
        """Bring about what no request can."""
        with self.http.database.writer() as connection:
            connection.exec_driver_sql(statement)

    def assert_status(self, status, reply):
        self.assertEqual(status, reply.status, reply.text)

    def assert_fault(self, status, sentence, reply):
        """A failure in the API's form, with these words in its sentence."""
        self.assert_status(status, reply)
        key, message = reply.fault
        self.assertEqual(KEYS[status], key)
        self.assertIn(sentence, message)

    def multiattach_type(self):
        """The type of volumes for several hosts, made when it is first needed."""
        if self._multiattach is None:
            self._multiattach = make.volume_type(self.http.database, make.MULTIATTACH_TYPE,
                                                 multiattach=True)
        return self._multiattach

    def volume(self, multiattach=False, **fields):
        """A volume that its backend really has; returns its id."""
        if multiattach:
            fields['volume_type'] = self.multiattach_type().name
        reply = self.http.as_member.post('/volumes', {'volume': {'size': 1, **fields}})
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def shown(self, volume_id):
        return self.http.as_admin.get(f'/volumes/{volume_id}').body['volume']

    def reserve(self, volume_id, instance_uuid=SERVER, **more):
        """An attachment without a connector; returns its id."""
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': instance_uuid, **more}})
        self.assert_status(200, reply)
        return reply.body['attachment']['id']

    def connect(self, attachment_id, connector=None):
        """Give an attachment a connector; returns what is answered."""
        reply = self.http.as_member.put(f'/attachments/{attachment_id}', {
            'attachment': {'connector': connector or make.connector()}})
        self.assert_status(200, reply)
        return reply.body['attachment']

    def complete(self, attachment_id):
        self.assert_status(204, self.http.as_member.post(
            f'/attachments/{attachment_id}/action', {'os-complete': {}}))

    def attached(self, volume_id, instance_uuid=SERVER, connector=None, **more):
        """An attachment that its consumer uses; returns its id."""
        attachment_id = self.reserve(volume_id, instance_uuid, **more)
        self.connect(attachment_id, connector)
        self.complete(attachment_id)
        return attachment_id


def new_id():
    return str(uuid.uuid4())
