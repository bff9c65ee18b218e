"""A client that writes down how each of its requests ended; it repeats one only where told to."""
import contextlib
import threading
from concurrent import futures
from typing import NamedTuple

from blockattach import clock
from blockattach.tests.faults import cloud as clouds
from blockattach.tests.functional import base

PROJECT = '00000000000000000000000000000002'
USER = '00000000000000000000000000000001'
REPEATED = (409, 500, 503, 504)
GUEST = 'guest'
"""The host that comes and goes; others stay."""


class Ended(NamedTuple):
    """How a request ended. ``status`` None: its connection was cut; ``seconds`` it took."""

    what: str
    status: int | None
    answer: object
    seconds: float


class Client:
    """Of one cloud.

    :ivar ended: of all requests since the last `forget`
    :ivar shared: the volume that all may attach; somebody writes to it all the time
    :ivar plain: a volume that one host may attach
    """

    def __init__(self, cloud):
        self.cloud = cloud
        self._api = base.Api(cloud.endpoints[0], clouds.SECONDS)
        self._clock = clock.Clock()
        self.ended = []
        self.shared = self.plain = None
        self.kept_volumes = set()
        self.kept_attachments = set()

    def forget(self):
        self.ended = []

    def ask(self, method, path, body=None):
        """Status and answer of one request, which is made once; no status: it was cut."""
        begun = self._clock.monotonic()
        try:
            status, answer = self._api.ask(method, path, body)
        except TimeoutError:
            # Nobody cut it, and nobody answers: what must never be.
            status, answer = 'never', None
        except OSError as exc:
            status, answer = None, repr(exc)
        self.ended.append(Ended(f'{method} {path} {body or ""}', status, answer,
                                self._clock.monotonic() - begun))
        return status, answer

    def sure(self, expected, method, path, body=None):
        """The answer of a request, repeated until it is one of the expected.

        :raises AssertionError: it is answered otherwise, or never so
        """
        heard = []

        def tried():
            with contextlib.suppress(OSError):
                heard.append(self._api.ask(method, path, body))
                return heard[-1][0] not in REPEATED or heard[-1][0] in expected
            return False
        clouds.wait_for(tried)
        assert heard and heard[-1][0] in expected, f'{method} {path}: {heard[-3:]}'
        return heard[-1][1]

    def attach(self, volume_id, host=GUEST, **more):
        """The id of an attachment that is connected."""
        return self.sure((200,), 'POST', '/attachments', wish(volume_id, host, **more)
                         )['attachment']['id']

    def attached(self, volume_id, host=GUEST):
        """The same, completed."""
        made = self.attach(volume_id, host)
        self.sure((204,), 'POST', f'/attachments/{made}/action', {'os-complete': None})
        return made

    def volume(self, **wanted):
        """The id of a volume that is available."""
        def made():
            found = self.sure((202,), 'POST', '/volumes', {'volume': {'size': 1, **wanted}})
            found = found['volume']['id']
            return found if self.settled(found) == 'available' else None
        found = clouds.wait_for(made)
        assert found, 'no volume can be made'
        return found

    def settled(self, volume_id):
        """The status of a volume that nobody makes or removes any more; None: it is gone."""
        found = []

        def known():
            with contextlib.suppress(OSError):
                status, shown = self._api.ask('GET', f'/volumes/{volume_id}')
                found[:] = [shown['volume']['status'] if status == 200 else None]
                return status in (200, 404) and found[0] not in ('creating', 'deleting')
            return False
        assert clouds.wait_for(known), f'volume {volume_id} is {found} for ever'
        return found[0]

    def act(self, volume_id, action, told=None):
        return self.ask('POST', f'/volumes/{volume_id}/action', {action: told or {}})

    def run(self, name, *arguments):
        """The exit status of a process that is run to its end."""
        begun = self._clock.monotonic()
        status = self.cloud.run(name, *arguments)
        self.ended.append(Ended(f'{name} {" ".join(arguments)}',
                                'never' if status is None else status, None,
                                self._clock.monotonic() - begun))
        return status

    def clear(self):
        """Remove all that is not kept, as a client does: with requests that must succeed."""
        for row in self.sure((200,), 'GET', '/attachments/detail')['attachments']:
            if row['id'] not in self.kept_attachments:
                self.sure((200, 404), 'DELETE', f'/attachments/{row["id"]}')
        path = f'/volumes/{self.plain}/action'
        self.sure((202, 400), 'POST', path, {'os-unreserve': {}})
        self.sure((202, 400), 'POST', path, {'os-roll_detaching': {}})
        for volume in self.sure((200,), 'GET', '/volumes/detail')['volumes']:
            if volume['id'] not in self.kept_volumes:
                self._remove(volume['id'])
        for noun, key in (('types', 'volume_types'), ('qos-specs', 'qos_specs')):
            for found in self.sure((200,), 'GET', f'/{noun}')[key]:
                if found['name'].startswith('passing'):
                    self.sure((202, 404), 'DELETE', f'/{noun}/{found["id"]}'
                              + ('?force=true' if key == 'qos_specs' else ''))

    def _remove(self, volume_id):
        """Until it is gone; one whose removal failed is removed again."""
        def gone():
            # 400: somebody is at work on it at this moment.
            self.sure((202, 400, 404), 'DELETE', f'/volumes/{volume_id}')
            return self.settled(volume_id) is None
        assert clouds.wait_for(gone), f'volume {volume_id} cannot be removed'

    def left(self):
        """What is there after `clear` and should not be, in words."""
        rows = {row['id'] for row in self.sure((200,), 'GET', '/attachments')['attachments']}
        volumes = {row['id']: row['status']
                   for row in self.sure((200,), 'GET', '/volumes/detail')['volumes']}
        found = [f'attachment {one}' for one in rows ^ self.kept_attachments]
        found += [f'volume {one}' for one in set(volumes) ^ self.kept_volumes]
        return found + ([] if volumes.get(self.plain) == 'available'
                        else [f'the plain volume is {volumes.get(self.plain)}'])

    def unanswered(self):
        """The requests that have never ended."""
        return [one for one in self.ended if one.status == 'never']


def wish(volume_id, host=GUEST, connector=True, **more):
    """The body of a request to attach."""
    told = {'volume_uuid': volume_id, 'instance_uuid': base.instance(host), **more}
    return {'attachment': {**told, 'connector': base.connector(host)} if connector else told}


def in_thread(act):
    """Run it beside; returns what tells of its end, and raises what it raised."""
    found = futures.Future()

    def run():
        try:
            found.set_result(act())
        except BaseException as exc:
            found.set_exception(exc)
    threading.Thread(target=run, name='client', daemon=True).start()
    return found
