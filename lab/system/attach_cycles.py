"""Clients that attach and detach continuously, and repeat requests if the response asks for it."""
import collections
import http.client
import itertools
import json
import threading
import urllib.parse
import uuid

from blockattach.platform import clock
from blockattach.tests.functional import base

ANSWER_SECONDS = 60
"""Seconds, longer than a response may take. A later response counts as missing."""
TIMEOUT_SECONDS = 90
"""Seconds during which a client repeats a request."""
RETRYABLE = (409, 503, 504)
"""Status codes that ask for a repeat, with the header Retry-After."""
THREADS = 4


class GaveUp(Exception):
    """Request without a response after which a client could continue."""


class Cycles:
    """Given number of attach cycles over all endpoints, in threads.

    :ivar done: number of completed cycles
    :ivar failures: reasons why threads ended early
    :ivar statuses: numbers of repeats by status, with None for a lost connection
    """

    def __init__(self, endpoints, volumes, total):
        """
        :param volumes: ids of a volume for each thread, and of a volume that all share
        """
        self.failures = []
        self.statuses = collections.Counter()
        self._endpoints = tuple(urllib.parse.urlsplit(endpoint) for endpoint in endpoints)
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._cycle = itertools.count()
        self._total = total
        self.done = 0
        self._clock = clock.Clock()
        *own, shared = volumes
        assert len(own) == THREADS
        self._threads = [threading.Thread(target=self._repeat, args=(number, volume, shared))
                         for number, volume in enumerate(own)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def wait_for(self, count):
        """Wait until so many cycles have been completed."""
        with self._changed:
            self._changed.wait_for(lambda: self.done >= count or not self._alive(),
                                   TIMEOUT_SECONDS)

    def join(self):
        for thread in self._threads:
            thread.join()

    def _alive(self):
        return any(thread.is_alive() for thread in self._threads)

    def _repeat(self, number, own, shared):
        kinds = itertools.cycle((self._named, self._reserved, self._unnamed))
        volumes = itertools.cycle((own, own, shared))
        host = f'client-{number}'
        try:
            while next(self._numbers) < self._total:
                next(kinds)(next(volumes), host)
                with self._changed:
                    self.done += 1
                    self._changed.notify_all()
        except GaveUp as exc:
            self.failures.append(str(exc))
        except Exception as exc:
            self.failures.append(repr(exc))
            raise

    def _named(self, volume, host):
        """Attach with one idempotent request. A repeat creates nothing."""
        made = self._ask(200, 'POST', '/attachments', _wish(volume, host, base.connector(host)),
                         key=uuid.uuid4().hex)
        self._use_and_leave(made)

    def _reserved(self, volume, host):
        """Reserve the volume and send the connector later."""
        made = self._ask(200, 'POST', '/attachments', _wish(volume, host), key=uuid.uuid4().hex)
        made = self._ask(200, 'PUT', f'/attachments/{made["attachment"]["id"]}',
                         {'attachment': {'connector': base.connector(host)}})
        self._use_and_leave(made)

    def _unnamed(self, volume, host):
        """Attach without an idempotency key. After a lost response, remove what was created."""
        made = self._ask(200, 'POST', '/attachments', _wish(volume, host, base.connector(host)),
                         lost=lambda: self._remove_all(volume, host))
        self._use_and_leave(made)

    def _use_and_leave(self, made):
        attachment = made['attachment']
        if attachment['connection_info'].get('target_iqn') is None:
            raise GaveUp(f'no connection: {attachment}')
        path = f'/attachments/{attachment["id"]}'
        self._ask(204, 'POST', f'{path}/action', {'os-complete': None})
        self._remove(path)

    def _remove(self, path):
        self._ask(200, 'DELETE', path, gone=True)

    def _remove_all(self, volume, host):
        """Remove all attachments of a host to a volume."""
        found = self._ask(200, 'GET', f'/attachments?instance_id={base.instance(host)}')
        for row in found['attachments']:
            if row['volume_id'] == volume:
                self._remove(f'/attachments/{row["id"]}')

    def _ask(self, expected, method, path, body=None, key=None, gone=False, lost=None):
        """Send a request, repeat it as long as the response asks for it, and return the response.

        :param key: idempotency key
        :param gone: True if status 404 counts as success
        :param lost: called before each repeat, to clean up if the outcome is unknown
        """
        deadline = self._clock.monotonic() + TIMEOUT_SECONDS
        heard, first = [], next(self._cycle)
        while self._clock.monotonic() < deadline:
            where = self._endpoints[(first + len(heard)) % len(self._endpoints)]
            status, wait, answer = self._once(where, method, path, body, key)
            heard.append((status, wait, answer))
            if status == expected or (gone and status == 404):
                return answer
            if status is not None and (status not in RETRYABLE or wait is None):
                raise GaveUp(f'{method} {path}: {heard}')
            self.statuses[status] += 1
            self._clock.wait(threading.Event(), float(wait or 0.1))
            if lost is not None:
                lost()
        raise GaveUp(f'{method} {path} timed out: {heard}')

    def _once(self, where, method, path, body, key):
        """Return status, Retry-After and body. The status is None if the connection is lost."""
        headers = {'OpenStack-API-Version': 'volume 3.71', 'Content-Type': 'application/json'}
        if key is not None:
            headers['Idempotency-Key'] = key
        connection = http.client.HTTPConnection(where.hostname, where.port,
                                                timeout=ANSWER_SECONDS)
        try:
            connection.request(method, where.path + path,
                               None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (ConnectionError, http.client.IncompleteRead) as exc:
            return None, None, repr(exc)
        except OSError as exc:
            raise GaveUp(f'{method} {path}: no answer: {exc!r}') from exc
        finally:
            connection.close()
        return answer.status, answer.getheader('Retry-After'), json.loads(text) if text else None


def _wish(volume, host, connector=None):
    wish = {'volume_uuid': volume, 'instance_uuid': base.instance(host), 'mode': 'rw'}
    return {'attachment': wish if connector is None else {**wish, 'connector': connector}}
