"""Kills of processes at places where only a real process can die.

These are in a driver, in a key file, and within a transaction on a database server. At all other
places, processes die in virtual time (``blockattach/tests/simulation/test_kills.py``).
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
"""Variable with the number of places per cloud, chosen by the seed. By default, all are tested."""
_QUIET_SECONDS = 3


class NotReached(AssertionError):
    """Raised if a process does not reach the place at which it is to die."""


REAL = ('drivers.', 'secrets.', 'backend.target.start.', 'backend.target.stop.',
        'backend.target.running.')
IN_TRANSACTION = '/db.engine.before_commit'


class KillsTestCase(faults.FaultsTestCase):
    """Kills on one database server.

    Kills within a transaction of a core operation run on both databases, all others on one.

    :cvar PART: the number of the database
    """

    def places(self):
        """Return all places to be killed at, as operation, process and place, after a walk."""
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
        """Perform an operation, and return the places that it passes, by process."""
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
        """Restart a process, and return the places that it passes while it stops and starts."""
        switch = self.cloud.switches[process]
        found = {}
        begun = switch.passed()
        self.end(process)
        found[operations.STOP] = switch.since(begun)
        begun = switch.passed()
        self.cloud.begin(process)
        self.cloud.wait_ready([process])
        # Periodic tasks start in the background.
        faults.pause(_QUIET_SECONDS)
        found[operations.START] = switch.since(begun)
        return found

    def end(self, process):
        """Stop a process in order. The manager also stops its target, which ends the streams."""
        if process == clouds.MANAGER:
            self.end_streams()
        self.cloud.signal(process, signal.SIGTERM)
        self.assertTrue(clouds.wait_for(lambda: self.cloud.has_ended(process)))

    def killed(self, operation, process, place):
        """Kill a process at a place, restart the process, and check the cloud."""
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
        """Check that an operation does not pass a place that the kill did not reach.

        Some places are passed only if something was late during the walk.
        """
        self.assertEqual([], self.interrupted())
        self.restore()
        self.assertNotIn(place, self._passed(operation)[process], 'was not reached')
        faults.tell(f'{type(self).__name__}: {process} passes {place} in {operation.name} '
                    f'only by chance')

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
        """Return a sample of the places, chosen by the seed and by their names.

        An additional place, which only this walk has passed, changes no other choice.
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
    """Return the number of the database on which the place is tested."""
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
