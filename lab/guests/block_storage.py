"""A plain client of the Block Storage API v3: for hosts in guests, and for the tests."""
import threading

import requests

from blockattach.platform import clock as clocks

PORT = 8776
USER = 'compute'
_VERSIONS = 'volume 3.71, blockattach 1.1'
_ANSWER_SECONDS = 120.0
_TICK = 0.1


class BlockStorage:
    """An administrator, by name and password (``[api] auth_strategy = http_basic``)."""

    def __init__(self, address, password):
        self._endpoint = f'http://{address}:{PORT}/v3'
        self._account = (USER, password)

    def ask(self, method, path, body=None):
        """The JSON of the answer; raises for a refusal, with what it says."""
        answer = self._send(method, path, body)
        if not answer.ok:
            raise AssertionError(f'{method} {path}: {answer.status_code} {answer.text}')
        return answer.json() if answer.content else None

    def create_volume(self, size_gb):
        """The id of one for several hosts, once it is available."""
        made = self.ask('POST', '/volumes', {'volume': {
            'size': size_gb, 'volume_type': 'multiattach'}})['volume']
        return self.wait_for(f'/volumes/{made["id"]}', 'volume', 'available')['id']

    def wait_for(self, path, noun, status, seconds=_ANSWER_SECONDS):
        """What is there, once it has this status."""
        clock, never = clocks.Clock(), threading.Event()
        deadline = clock.monotonic() + seconds
        while (found := self.ask('GET', path)[noun])['status'] != status:
            assert clock.monotonic() < deadline, found
            clock.wait(never, _TICK)
        return found

    def _send(self, method, path, body):
        with requests.Session() as session:
            session.trust_env = False
            session.auth = self._account
            return session.request(method, f'{self._endpoint}{path}', json=body,
                                   headers={'OpenStack-API-Version': _VERSIONS},
                                   timeout=_ANSWER_SECONDS)
