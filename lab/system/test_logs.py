"""Log lines of a request, in each format of a log."""
import json
import re
import urllib.error
import urllib.request

from blockattach.platform.http import auth
from blockattach.tests.functional import base

SECONDS = 180
PROJECT = auth.DEFAULT_PROJECT_ID
STEPS = ('Attachment reserved', 'Initiator access granted', 'Attachment state changed')
"""Log messages of an attach, by the API and by the volume manager."""
HANDLED, ANSWERED = 'Message handled', 'Request completed'
AS_JSON = '[DEFAULT]\nuse_json = true\nuse_stderr = false\n'


class LogsTest(base.StackTestCase):

    def ask(self, service, method, path, body=None, **headers):
        """Send a request, and return its id and the body of the response."""
        request = urllib.request.Request(
            service.endpoint + path, body and json.dumps(body).encode(),
            {'OpenStack-API-Version': 'volume 3.71', 'Content-Type': 'application/json',
             **headers}, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read()
            return answer.headers['x-openstack-request-id'], text and json.loads(text)

    def attach(self, service, volume_id):
        return self.ask(service, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance('one'),
            'connector': base.connector('one')}})

    def lines(self, service, *request_ids):
        """Return the log lines of requests, after all of them have been answered."""
        def found():
            lines = [json.loads(line) for line in service.log_text().splitlines()
                     if line.startswith('{')]
            return [line for line in lines if line['context'].get('request_id') in request_ids]

        self.assertTrue(base.wait_for(
            lambda: [line['message'] for line in found()].count(ANSWERED) == len(request_ids),
            SECONDS))
        return found()

    def test_request_logged_in_one_line(self):
        service = self.a_stack(settings=AS_JSON)
        volume_id = self.a_volume(base.Api(service.endpoint))
        attaching, made = self.attach(service, volume_id)
        attachment_id = made['attachment']['id']
        where = f'/attachments/{attachment_id}'
        completing, _ = self.ask(service, 'POST', f'{where}/action', {'os-complete': {}})
        showing, _ = self.ask(service, 'GET', where)
        refused, _ = self.ask(service, 'DELETE', f'/volumes/{volume_id}')
        deleting, _ = self.ask(service, 'DELETE', where)
        lines = self.lines(service, attaching, completing, showing, refused, deleting)

        def of(request_id):
            """Return the fields of a request's own line, and of the lines of its messages."""
            found = [line for line in lines if line['context']['request_id'] == request_id]
            self.assertEqual({'INFO'}, {line['levelname'] for line in found})
            [answered] = [line['fields'] for line in found if line['message'] == ANSWERED]
            handled = [line['fields'] for line in found if line['message'] != ANSWERED]
            self.assertEqual([HANDLED] * len(handled), [
                line['message'] for line in found if line['message'] != ANSWERED])
            return answered, handled

        both = {'attachment_id': attachment_id, 'volume_id': volume_id}
        for request_id, operation, status, sent in (
                (attaching, 'POST /attachments', 200, ['volume.connect']),
                (completing, 'POST /attachments/{id}/action (os-complete)', 204, []),
                (showing, 'GET /attachments/{id}', 200, []),
                (refused, 'DELETE /volumes/{id}', 400, []),
                (deleting, 'DELETE /attachments/{id}', 200, ['volume.disconnect'])):
            with self.subTest(operation):
                answered, handled = of(request_id)
                self.assertEqual((operation, status), (answered['operation'], answered['status']))
                self.assertEqual(sent, [line['method'] for line in handled])
                self.assertGreater(answered['seconds'], answered['database_seconds'])
                self.assertEqual(bool(sent), 'rpc_seconds' in answered)
                for line in handled:
                    self.assertEqual('ok', line['outcome'])
                    self.assertEqual(both, {name: line[name] for name in both})
                    self.assertGreater(line['seconds'],
                                       line['database_seconds'] + line['backend_seconds'])
                wanted = {'GET': {'attachment_id'}, 'DELETE': {'volume_id'}}.get(
                    answered['method'], set(both)) if not sent else set(both)
                self.assertEqual({name: both[name] for name in wanted},
                                 {name: answered[name] for name in both if name in answered})
        self.assertTrue(of(refused)[0]['code'])

    def test_steps_are_at_debug(self):
        service = self.a_stack(settings=f'{AS_JSON}debug = true\n')
        volume_id = self.a_volume(base.Api(service.endpoint))
        request_id, _ = self.attach(service, volume_id)
        found = {line['message']: line['levelname'] for line in self.lines(service, request_id)}
        self.assertEqual(dict.fromkeys(STEPS, 'DEBUG'), {
            sentence: level for sentence, level in found.items() if sentence in STEPS})

    def test_work_that_goes_on_after_the_answer_is_at_info(self):
        service = self.a_stack(settings=AS_JSON)
        request_id, _ = self.ask(service, 'POST', '/volumes', {'volume': {'size': 1}})
        self.assertTrue(base.wait_for(lambda: 'Volume created' in {
            line['message'] for line in self.lines(service, request_id)
            if line['levelname'] == 'INFO'}, SECONDS))

    def test_as_json(self):
        service = self.a_stack(settings=AS_JSON)
        request_id, _ = self.attach(service, self.a_volume(base.Api(service.endpoint)))
        stranger, _ = self.ask(service, 'GET', '/volumes', **{'X-Auth-Token': 'malformed'})
        of_request = self.lines(service, request_id)
        self.assertEqual({PROJECT}, {line['context']['project_id'] for line in of_request})
        answered = next(line for line in of_request if line['message'] == ANSWERED)
        self.assertEqual(('POST', 200), (answered['fields']['method'],
                                         answered['fields']['status']))
        # A request without authentication is not logged with the project of the thread's last
        # request.
        [of_stranger] = self.lines(service, stranger)
        self.assertIsNone(of_stranger['context']['project_id'])
        self.assertEqual(401, of_stranger['fields']['status'])

    def test_as_text(self):
        service = self.a_stack(settings='[DEFAULT]\nuse_stderr = false\n')
        request_id, _ = self.attach(service, self.a_volume(base.Api(service.endpoint)))
        for sentence in (HANDLED, ANSWERED):
            with self.subTest(sentence):
                self.assertTrue(base.wait_for(lambda sentence=sentence: re.search(
                    rf'\[{request_id} \S+ {PROJECT} .*\] {sentence} ',
                    service.log_text()), SECONDS))
