"""Concurrent creation and deletion of volumes by many clients."""
import collections
import concurrent.futures

from blockattach.platform import clock as clocks
from blockattach.tests.fixtures import polling
from blockattach.tests.functional import base

CLIENTS = 16
SECONDS = 120


class ChurnTest(base.StackTestCase):
    """Files are created and deleted while the sizes of the files in their directory are read."""

    def test_two_minutes_of_creations_and_deletions(self):
        service = self.a_stack('file')
        clock = clocks.Clock()
        ends = clock.monotonic() + SECONDS
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            outcomes = [clients.submit(self.create_and_delete, service.endpoint, clock, ends)
                        for _ in range(CLIENTS)]
        seen = collections.Counter()
        for outcome in outcomes:
            seen.update(outcome.result())
        self.assertEqual({'gone'}, set(seen), seen)
        self.assertLess(CLIENTS, seen['gone'])
        self.assertEqual([], base.Api(service.endpoint).list('volumes'))
        self.assertEqual([], [line for line in service.log_text().splitlines()
                              if 'Cannot' in line or 'Traceback' in line])

    def create_and_delete(self, endpoint, clock, ends):
        """Return the outcomes of volumes: ``gone``, or a wrong status or response."""
        api = base.Api(endpoint)
        seen = collections.Counter()
        while clock.monotonic() < ends:
            seen[self.one(api)] += 1
        return seen

    def one(self, api):
        status, body = api.ask('POST', '/volumes', {'volume': {'size': 1}})
        if status != 202:
            return f'{status} {body}'
        path = f'/volumes/{body["volume"]["id"]}'

        def made():
            found = api.ask('GET', path)[1]['volume']['status']
            return found if found != 'creating' else None
        status = polling.until(made, f'{path} is created')
        if status != 'available':
            return status
        status, body = api.ask('DELETE', path)
        if status != 202:
            return f'{status} {body}'
        polling.until(lambda: api.ask('GET', path)[0] == 404, f'{path} is deleted')
        return 'gone'
