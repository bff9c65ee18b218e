"""Plain client of the Block Storage API v3 for hosts in guests, and for the tests."""
import threading

import requests

from blockattach.platform import clock as clocks

PORT = 8776
USER = 'compute'
_VERSIONS = 'volume 3.71, blockattach 1.1'
_ANSWER_SECONDS = 120.0
_TICK = 0.1


class BlockStorage:
    """Client of an administrator with name and password (``[api] auth_strategy = http_basic``)."""

    def __init__(self, address, password):
        self._endpoint = f'http://{address}:{PORT}/v3'
        self._account = (USER, password)

    def ask(self, method, path, body=None):
        """Return the JSON of a response, or raise AssertionError with the text of a refusal."""
        answer = self._send(method, path, body)
        if not answer.ok:
            raise AssertionError(f'{method} {path}: {answer.status_code} {answer.text}')
        return answer.json() if answer.content else None

    def create_volume(self, size_gb):
        """Create a multiattach volume, wait until it is available, and return its id."""
        made = self.ask('POST', '/volumes', {'volume': {
            'size': size_gb, 'volume_type': 'multiattach'}})['volume']
        return self.wait_for(f'/volumes/{made["id"]}', 'volume', 'available')['id']

    def wait_for(self, path, noun, status, seconds=_ANSWER_SECONDS):
        """Return a resource as soon as it has this status."""
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
