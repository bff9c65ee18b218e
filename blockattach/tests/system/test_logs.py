"""What the lines of a request have in common, in each form that a log may have."""
import json
import re
import urllib.error
import urllib.request

from blockattach.http import auth
from blockattach.tests.functional import base

SECONDS = 180
PROJECT = auth.DEFAULT_PROJECT_ID
SENTENCES = ('Attachment is reserved', 'Attachment has moved', 'Request is answered')
"""By the API, by the volume manager behind the bus, by the API."""


class LogsTest(base.StackTestCase):

    def ask(self, service, path, body=None, **headers):
        """The id of the request, whatever the answer is."""
        request = urllib.request.Request(
            service.endpoint + path, body and json.dumps(body).encode(),
            {'OpenStack-API-Version': 'volume 3.71', 'Content-Type': 'application/json',
             **headers})
        try:
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.headers['x-openstack-request-id']

    def attach(self, service):
        return self.ask(service, '/attachments', {'attachment': {
            'volume_uuid': self.a_volume(base.Api(service.endpoint)),
            'instance_uuid': base.instance('one'), 'connector': base.connector('one')}})

    def test_as_json(self):
        service = self.a_stack(settings='[DEFAULT]\nuse_json = true\nuse_stderr = false\n')
        request_id = self.attach(service)
        stranger = self.ask(service, '/volumes', **{'X-Auth-Token': 'malformed'})

        def lines():
            return [json.loads(line) for line in service.log_text().splitlines()
                    if line.startswith('{')]

        self.assertTrue(base.wait_for(lambda: any(
            line['context'].get('request_id') == stranger for line in lines()), SECONDS))
        of_request = [line for line in lines()
                      if line['context'].get('request_id') == request_id]
        self.assertLessEqual(set(SENTENCES), {line['message'] for line in of_request})
        self.assertEqual({PROJECT}, {line['context']['project_id'] for line in of_request})
        answered = next(line for line in of_request if line['message'] == SENTENCES[2])
        self.assertEqual(('POST', 200), (answered['fields']['method'],
                                         answered['fields']['status']))
        # A request without authentication does not bear the name of the thread's former caller.
        of_stranger = [line for line in lines() if line['context'].get('request_id') == stranger]
        self.assertEqual({None}, {line['context']['project_id'] for line in of_stranger})
        self.assertEqual([401], [line['fields']['status'] for line in of_stranger
                                 if line['message'] == SENTENCES[2]])

    def test_as_text(self):
        service = self.a_stack(settings='[DEFAULT]\nuse_stderr = false\n')
        request_id = self.attach(service)
        for sentence in SENTENCES:
            with self.subTest(sentence):
                self.assertTrue(base.wait_for(lambda sentence=sentence: re.search(
                    rf'\[{request_id} \S+ {PROJECT} .*\] {sentence} ',
                    service.log_text()), SECONDS))
