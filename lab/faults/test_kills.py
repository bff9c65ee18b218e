"""Processes are killed where only a real one can die: in a driver, in a file of keys, and in the
middle of a transaction on a server. Everywhere else they die in virtual time
(``blockattach/tests/simulation/test_kills.py``).
"""
import os
import signal
import zlib

from blockattach.tests.fixtures import servers
from lab.faults import base as faults
from lab.faults import client as clients
from lab.faults import cloud as clouds
from lab.simulation import nouns
from lab.simulation import operations

SAMPLE = 'BLOCKATTACH_FAULTS_SAMPLE'
"""So many places of each cloud, by the seed; without it all."""
_QUIET_SECONDS = 3


class NotReached(AssertionError):
    """A process has not come to the place that it was to die at."""


REAL = ('drivers.', 'secrets.', 'backend.target.start.', 'backend.target.stop.',
        'backend.target.running.')
IN_TRANSACTION = '/db.engine.before_commit'


class KillsTestCase(faults.FaultsTestCase):
    """In a transaction of a core operation, they die on both databases; elsewhere on one.

    :cvar PART: on which
    """

    def places(self):
        """All that there is to be killed at: operation, process and place, by a walk through."""
        found, known = [], set()
        idle = self._passed(nouns.named('idle'))
        for operation in nouns.IN_PROCESSES:
            passed = idle if operation.name == 'idle' else self._passed(operation)
            for process, places in passed.items():
                if operation.others and process == clouds.MANAGER:
                    continue
                usual = set() if operation.name == 'idle' else set(idle.get(process, ()))
                for place in places:
                    if place in usual or not operation.core and (process, place) in known:
                        continue
                    known.add((process, place))
                    found.append((operation, process, place))
        for process in self.cloud.PROCESSES:
            for word, places in self._of_an_instance(process).items():
                new = [place for place in places if (process, place) not in known]
                known.update((process, place) for place in new)
                found += [(word, process, place) for place in new]
        return found

    def _passed(self, operation):
        """The places that an operation passes, by process."""
        made = operation.prepare(self.client)
        self.assertTrue(clouds.wait_for(self.cloud.is_clean))
        begun = {name: switch.passed() for name, switch in self.cloud.switches.items()}
        with operations.hindered(self.client, operation):
            status = operation.act(self.client, made)
            self.assertIn(status, (None, 0), operation.name)
            clouds.wait_for(self.cloud.is_clean)
            if operation.name == 'idle':
                faults.pause(_QUIET_SECONDS)
        passed = {name: switch.since(begun[name]) for name, switch in self.cloud.switches.items()}
        operation.undo(self.client)
        self.client.clear()
        return passed

    def _of_an_instance(self, process):
        """What it passes when it is stopped, and when it begins."""
        switch = self.cloud.switches[process]
        found = {}
        begun = switch.passed()
        self.end(process)
        found[operations.STOP] = switch.since(begun)
        begun = switch.passed()
        self.cloud.begin(process)
        self.cloud.wait_ready([process])
        # What begins by and by in the background.
        faults.pause(_QUIET_SECONDS)
        found[operations.START] = switch.since(begun)
        return found

    def end(self, process):
        """In order. The manager takes the target with it, and the hosts that write to it."""
        if process == clouds.MANAGER:
            self.end_streams()
        self.cloud.signal(process, signal.SIGTERM)
        self.assertTrue(clouds.wait_for(lambda: self.cloud.has_ended(process)))

    def killed(self, operation, process, place):
        """Kill it there, start it again, and look."""
        what = f'{process} at {place} in {_name(operation)}'
        self.client.forget()
        if operation == operations.START:
            self._killed_at_start(process, place)
        elif operation == operations.STOP:
            self._killed_at_stop(process, place)
        else:
            try:
                self._killed_at_work(operation, process, place)
            except NotReached:
                self._passed_by_chance(operation, process, place)
                return
        self.in_order(what, self.died, (process,))

    def _passed_by_chance(self, operation, process, place):
        """Some places are passed only when something is late, as on the walk. Such a one is not
        passed by itself now.
        """
        self.assertEqual([], self.interrupted())
        self.restore()
        self.assertNotIn(place, self._passed(operation)[process], 'was not reached')
        faults.tell(f'{type(self).__name__}: {process} has come to {place} in {operation.name} '
                    f'by chance only')

    def _killed_at_work(self, operation, process, place):
        made = operation.prepare(self.client)
        self.assertTrue(clouds.wait_for(self.cloud.is_clean))
        self.client.forget()
        with operations.hindered(self.client, operation, (process, f'{place}=kill')):
            if process in clouds.ONCE:
                status = operation.act(self.client, made)
                if status in operation.again:
                    raise NotReached
                self.assertEqual(-signal.SIGKILL, status)
                self.died = self.clock.monotonic()
            else:
                ends = clients.in_thread(lambda: operation.act(self.client, made))
                self._died(process)
        if process in clouds.ONCE:
            self.assertIn(operation.act(self.client, made), operation.again)
        else:
            self.cloud.begin(process)
            ends.result(faults.TIMEOUT)
        operation.undo(self.client)

    def _died(self, process):
        if not clouds.wait_for(lambda: self.cloud.has_ended(process)):
            raise NotReached('was not reached')
        self.died = self.clock.monotonic()
        self.assertTrue(self.cloud.was_killed(process))

    def _killed_at_start(self, process, place):
        self.cloud.kill(process)
        self._killed_by_itself(process, place, lambda: self.cloud.begin(process))
        self.cloud.begin(process)

    def _killed_at_stop(self, process, place):
        if process == clouds.MANAGER:
            self.end_streams()
        self._killed_by_itself(process, place,
                               lambda: self.cloud.signal(process, signal.SIGTERM))
        self.cloud.begin(process)
        self.cloud.wait_ready([process])
        if process == clouds.MANAGER:
            self.assertTrue(clouds.wait_for(self.cloud.is_clean))
            self.open_streams()

    def _killed_by_itself(self, process, place, act):
        switch = self.cloud.switches[process]
        switch.set(f'{place}=kill')
        act()
        self._died(process)
        switch.set()

    def sampled(self, places, number):
        """So many of them, by the seed and by what they are: a place more, which a walk has come
        upon by chance, is no reason to play all others.
        """
        salt = self.chance().random()
        ranked = sorted(places, key=lambda one: zlib.crc32(
            f'{salt} {_name(one[0])} {one[1]} {one[2]}'.encode()))[:number]
        return [one for one in places if one in ranked]

    def kill_at_all(self):
        places = self.places()
        self.open_streams()
        chosen = [(operation, process, place) for operation, process, place in places
                  if getattr(operation, 'core', False) and place.endswith(IN_TRANSACTION)
                  or place.startswith(REAL) and _part(process, place) == self.PART]
        if os.environ.get(SAMPLE):
            chosen = self.sampled(chosen, int(os.environ[SAMPLE]))
        for operation, process, place in chosen:
            with self.fault(operation=_name(operation), process=process, place=place):
                self.killed(operation, process, place)
        self.end_streams()
        self.assertEqual([], self.cloud.checked())
        faults.tell(f'{type(self).__name__}: {len(places)} places, {len(chosen)} kills')


def _name(operation):
    return getattr(operation, 'name', operation)


def _part(process, place):
    """The same wherever it is asked."""
    return zlib.crc32(f'{process} {place}'.encode()) % 2


class MariadbKillsTest(KillsTestCase):

    PART = 0

    def test_every_process_at_every_place(self):
        self.kill_at_all()


class PostgresqlKillsTest(KillsTestCase):

    SERVER = servers.PostgreSQL
    PART = 1

    def test_every_process_at_every_place(self):
        self.kill_at_all()
