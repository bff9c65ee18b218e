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
    """Test case with an API of its own, which is built with ``SETTINGS``."""

    SETTINGS = {}

    def setUp(self):
        super().setUp()
        # The tests plan faults, whose tracebacks would fill the output.
        silent = logging.NullHandler()
        logging.getLogger('blockattach').addHandler(silent)
        self.addCleanup(logging.getLogger('blockattach').removeHandler, silent)
        self.http = http.ApiFixture(**self.SETTINGS)
        self.addCleanup(self.http.close)
        self._multiattach = None

    def sql(self, statement):
        """Execute a statement, for a state that no request can create."""
        with self.http.database.writer() as connection:
            connection.exec_driver_sql(statement)

    def assert_status(self, status, reply):
        self.assertEqual(status, reply.status, reply.text)

    def assert_fault(self, status, sentence, reply):
        """Check the status and the key of a fault, and that its message contains the sentence."""
        self.assert_status(status, reply)
        key, message = reply.fault
        self.assertEqual(KEYS[status], key)
        self.assertIn(sentence, message)

    def multiattach_type(self):
        """Return the multiattach volume type, which the first call creates."""
        if self._multiattach is None:
            self._multiattach = make.volume_type(self.http.database, make.MULTIATTACH_TYPE,
                                                 multiattach=True)
        return self._multiattach

    def volume(self, multiattach=False, **fields):
        """Create a volume and return its id."""
        if multiattach:
            fields['volume_type'] = self.multiattach_type().name
        reply = self.http.as_member.post('/volumes', {'volume': {'size': 1, **fields}})
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def shown(self, volume_id):
        return self.http.as_admin.get(f'/volumes/{volume_id}').body['volume']

    def reserve(self, volume_id, instance_uuid=SERVER, **more):
        """Create an attachment without a connector and return its id."""
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': instance_uuid, **more}})
        self.assert_status(200, reply)
        return reply.body['attachment']['id']

    def connect(self, attachment_id, connector=None):
        """Update an attachment with a connector and return the attachment of the response."""
        reply = self.http.as_member.put(f'/attachments/{attachment_id}', {
            'attachment': {'connector': connector or make.connector()}})
        self.assert_status(200, reply)
        return reply.body['attachment']

    def complete(self, attachment_id):
        self.assert_status(204, self.http.as_member.post(
            f'/attachments/{attachment_id}/action', {'os-complete': {}}))

    def attached(self, volume_id, instance_uuid=SERVER, connector=None, **more):
        """Reserve, connect and complete an attachment, and return its id."""
        attachment_id = self.reserve(volume_id, instance_uuid, **more)
        self.connect(attachment_id, connector)
        self.complete(attachment_id)
        return attachment_id


def new_id():
    return str(uuid.uuid4())
