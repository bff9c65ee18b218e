"""Volume managers that respond as a test defines, in place of the bus."""
import threading

from blockattach.platform import errors
from blockattach.storage.db import work
from blockattach.storage.db.volumes import volumes


def accept(database, host, volume_id, generation):
    """Claim the work for the volume manager."""
    return work.claim(database, volumes.creation(volume_id, generation, host), host, 60)


def refuse(database, host, volume_id, generation):
    """Refuse the call."""
    raise errors.BackendRefused(reason='refused by the test')


def be_silent(database, host, volume_id, generation):
    """Fail the call as if the host did not answer. The message may still arrive later."""
    raise errors.ServiceUnreachable(topic=f'volume.{host}', seconds=15)


def lose_the_answer(database, host, volume_id, generation):
    """Claim the work for the volume manager, and fail the call as if the answer was lost."""
    assert accept(database, host, volume_id, generation)
    raise errors.ServiceUnreachable(topic=f'volume.{host}', seconds=15)


class Managers:
    """Stand-in for `blockattach.storage.rpc.volume.VolumeClients`.

    ``asked`` has the calls that reached a volume manager.
    """

    def __init__(self, database, behavior=accept, **by_host):
        self._database = database
        self._behavior = behavior
        self._by_host = by_host
        self._lock = threading.Lock()
        self.asked = []

    def on(self, host):
        return _Manager(self, host)

    def hear(self, host, volume_id, generation):
        with self._lock:
            self.asked.append((host, volume_id, generation))
        behavior = self._by_host.get(host.partition('@')[0], self._behavior)
        return behavior(self._database, host, volume_id, generation)

    @property
    def hosts(self):
        """Hosts that were called, in order."""
        return [host for host, _, _ in self.asked]


class _Manager:
    def __init__(self, managers, host):
        self._managers = managers
        self._host = host

    def accept_work(self, ctxt, noun, verb, resource_id, generation):
        return self._managers.hear(self._host, resource_id, generation)
