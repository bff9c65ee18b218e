"""Planted bugs in messages without a broker: authentication, and repeated requests."""
from lab.planted import bug

Bug = bug.Bug
_TESTS = 'blockattach.tests.unit.rpc'

BUGS = (
    Bug('what_may_be_done_goes_the_other_way', 'platform/rpc/calling.py',
        '            except ends.NotReached as error:\n'
        "                LOG.debug('Sending call",
        '            except (ends.NotReached, oslo_messaging.MessagingTimeout) as error:\n'
        "                LOG.debug('Sending call",
        'a call that may have been sent is not sent by the broker as well', 'P6',
        f'{_TESTS}.test_http_calls.DirectTest'),
    Bug('a_later_start_takes_it', 'platform/rpc/http/server.py',
        '            take = self._servers.get((request.topic, request.instance))\n',
        '            take = next((one for (topic, _), one in self._servers.items()\n'
        '                         if topic == request.topic), None)\n',
        'what was meant for another start of a server is not done', 'P6',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('a_request_counts_twice', 'platform/rpc/http/trust.py',
        '            self._seen[nonce] = now\n',
        '            self._seen[nonce + str(now)] = now\n',
        'what was recorded on its way is not done again', 'P6',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('an_answer_of_anybody', 'platform/rpc/http/client.py',
        'if not trust.is_proved(key, nonce, answer.status, answer.body, answer.proof):\n',
        'if not answer.proof:\n',
        'an answer is that of who has the key', 'P7',
        f'{_TESTS}.test_http_client.ClientTest.'
        'test_forged_answer_uncertain'),
    Bug('a_key_for_everything', 'platform/rpc/http/server.py',
        '            trust.check_topic(key, request.topic)\n',
        '',
        "a consumer's key reaches the attachments alone", 'P7',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('any_certificate', 'platform/rpc/http/tls.py',
        '    if not hmac.compare_digest(actual, fingerprint):\n',
        '    if not actual:\n',
        'nothing is sent to who has not the certificate of the server', 'P7',
        f'{_TESTS}.test_http.TlsBusTest'),
    Bug('who_is_silent_is_called', 'storage/db/services/rpc_endpoints.py',
        ' _endpoints.c.reported_at >= clock.now(-down_after),\n',
        '\n',
        'a process that has gone without a word is not waited for', 'P9',
        'blockattach.tests.db.test_rpc_endpoints'),
)
