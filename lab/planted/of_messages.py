"""Planted bugs in messages without a broker: authentication, and repeated requests."""
from lab.planted import bug

Bug = bug.Bug
_TESTS = 'blockattach.tests.unit.rpc'

BUGS = (
    Bug('timed_out_call_sent_by_broker', 'platform/rpc/calling.py',
        '            except ends.NotReached as error:\n'
        "                LOG.debug('Sending RPC call",
        '            except (ends.NotReached, oslo_messaging.MessagingTimeout) as error:\n'
        "                LOG.debug('Sending RPC call",
        'a direct call that may have reached a server is not sent through the broker too', 'P6',
        f'{_TESTS}.test_http_calls.DirectTest'),
    Bug('request_taken_by_other_instance', 'platform/rpc/http/server.py',
        '            take = self._servers.get((request.topic, request.instance))\n',
        '            take = next((one for (topic, _), one in self._servers.items()\n'
        '                         if topic == request.topic), None)\n',
        'a request to one process instance is not executed by another instance', 'P6',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('repeated_nonce_accepted', 'platform/rpc/http/trust.py',
        '            self._seen[nonce] = now\n',
        '            self._seen[nonce + str(now)] = now\n',
        'a request with the nonce of an earlier request is rejected', 'P6',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('reply_with_forged_proof_accepted', 'platform/rpc/http/client.py',
        'if not trust.is_proved(key, nonce, answer.status, answer.body, answer.proof):\n',
        'if not answer.proof:\n',
        'a reply is accepted only if its proof was made with the key of the request', 'P7',
        f'{_TESTS}.test_http_client.ClientTest.'
        'test_forged_answer_uncertain'),
    Bug('key_accepted_for_every_topic', 'platform/rpc/http/server.py',
        '            trust.check_topic(key, request.topic)\n',
        '',
        'a key that is restricted to some topics is rejected for any other topic', 'P7',
        f'{_TESTS}.test_http_server.TrustedServerTest'),
    Bug('server_certificate_not_verified', 'platform/rpc/http/tls.py',
        '    if not hmac.compare_digest(actual, fingerprint):\n',
        '    if not actual:\n',
        'no request is sent to a server whose certificate has another fingerprint', 'P7',
        f'{_TESTS}.test_http.TlsBusTest'),
    Bug('silent_rpc_endpoint_called', 'storage/db/services/rpc_endpoints.py',
        ' _endpoints.c.reported_at >= clock.now(-down_after),\n',
        '\n',
        'an RPC endpoint without a recent heartbeat is not called', 'P9',
        'blockattach.tests.db.test_rpc_endpoints'),
)
