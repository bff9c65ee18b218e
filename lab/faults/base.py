"""Base class of the tests of real faults.

It provides a cloud, a client and hosts that write all the time, and checks what must hold after
each fault.
"""
import contextlib
import os
import random

from blockattach.platform import clock
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import scsi
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.faults import client as clients
from lab.faults import cloud as clouds
from lab.simulation import operations
from lab.system import streams

STEADY = ('steady-1', 'steady-2')
_APART = 4096
TIMEOUT = 5 * clouds.SECONDS
"""Timeout in seconds of all requests of an operation together."""
FIGURES = 'BLOCKATTACH_FAULTS_FIGURES'


class FaultsTestCase(base.StackTestCase):
    """Tests that share one cloud per class.

    :cvar took: seconds from each fault until everything was in order again, by fault
    """

    SERVER = servers.MariaDB
    SETTINGS = {}
    """Additional configuration options by group."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for present, name in ((tgtd.program(), 'tgtd'), (scsi.available(), 'libiscsi')):
            cls.outside_program(cls('setUp'), present, name)
        cls.took = {}
        cls.clock = clock.Clock()
        cls.cloud = clouds.Cloud(cls.SERVER, cls.SETTINGS)
        cls.addClassCleanup(cls.cloud.close)
        cls.made_ready(cls.cloud)
        cls.cloud.start()
        cls.client = clients.of(cls.cloud)
        cls.streams = []
        cls.addClassCleanup(cls._end_streams)
        client = cls.client
        client.sure((200, 409), 'POST', '/types', {'volume_type': {
            'name': 'shared', 'extra_specs': {'multiattach': '<is> True'}}})
        client.shared = client.volume(volume_type='shared')
        client.plain = client.volume()
        other = client.volume()
        client.kept_volumes = {client.shared, client.plain, other}
        cls.steady = dict(zip(STEADY, (client.shared, other), strict=True))
        for host, volume in cls.steady.items():
            client.kept_attachments.add(client.attached(volume, host))
        cls.open_streams()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if cls.took:
            seconds = sorted(cls.took.values())
            slowest = sorted(cls.took, key=cls.took.get)[-3:]
            tell(f'{cls.__name__}: {len(seconds)} faults; recovered after '
                 f'{seconds[len(seconds) // 2]:.1f} s (median), '
                 f'{seconds[len(seconds) * 9 // 10]:.1f} s (90th percentile), '
                 f'{seconds[-1]:.1f} s (longest); slowest: '
                 + ', '.join(f'{one} {cls.took[one]:.1f} s' for one in slowest))

    @classmethod
    def made_ready(cls, cloud):
        """Prepare the cloud before its processes start."""

    @classmethod
    def open_streams(cls):
        """Start two hosts that write all the time, one to the shared volume and one to another."""
        shown = {row['id']: row for row in cls.client.sure(
            (200,), 'GET', '/attachments/detail')['attachments']}
        by_volume = {shown[one]['volume_id']: shown[one]['connection_info']
                     for one in cls.client.kept_attachments}
        cls.streams = [streams.Stream(host, by_volume[volume], _APART * number)
                       for number, (host, volume) in enumerate(cls.steady.items())]

    @classmethod
    def _end_streams(cls):
        """Log the hosts out, and return their errors."""
        begun, cls.streams = cls.streams, []
        for stream in begun:
            stream.close()
        return [wrong for stream in begun for wrong in stream.wrong]

    def end_streams(self):
        """Log the hosts out, and check that they were never interrupted."""
        self.assertEqual([], self._end_streams())

    def restore(self):
        """Restore the cloud after a failed test, for the next test."""
        for switch in self.cloud.switches.values():
            switch.set()
        for name in self.cloud.PROCESSES:
            if self.cloud.go_on(name):
                self.cloud.wait_ready([name])
        self.client.clear()
        clouds.wait_for(self.cloud.is_clean)
        if self.interrupted() or not self.streams:
            self._end_streams()
            self.open_streams()

    @contextlib.contextmanager
    def fault(self, **named):
        """Run a subtest, and restore the cloud if it fails."""
        with self.subTest(**named):
            try:
                yield
            except BaseException:
                self.restore()
                raise

    def interrupted(self):
        return [wrong for stream in self.streams for wrong in stream.wrong]

    def stopped_at(self, operation, process, place, fault, what):
        """Stop a process at a place, cause a fault, resume the process, and check the cloud.

        A process that the fault has killed is restarted.
        """
        made = operation.prepare(self.client)
        self.assertTrue(clouds.wait_for(self.cloud.is_clean))
        self.client.forget()
        with operations.hindered(self.client, operation, (process, f'{place}=stop*1')):
            ends = clients.in_thread(lambda: operation.act(self.client, made))
            self.assertTrue(clouds.wait_for(lambda: self.cloud.is_stopped(process)),
                            f'{place} was not reached')
            fault()
        killed = self.cloud.go_on(process)
        begun = self.clock.monotonic()
        ends.result(TIMEOUT)
        self.in_order(what, begun, (process,) if killed else ())

    def in_order(self, what, begun, ended=()):
        """Check the cloud after a fault.

        Nothing is violated, no work is under way and no host was interrupted. Every request has
        ended with an answer.

        :param begun: the monotonic time when the fault was over
        :param ended: the processes that were killed; if the API is among them, requests may be cut
            off
        """
        self.assertTrue(clouds.wait_for(self.cloud.is_clean), f'{what}: {self._why_not()}')
        self.took[what] = self.clock.monotonic() - begun
        self.cloud.wait_ready(self.cloud.PROCESSES)
        self.assertEqual([], self.interrupted(), what)
        self.assertEqual([], self.client.unanswered(), what)
        if clouds.API not in ended:
            self.assertEqual([], [one for one in self.client.ended if one.status is None], what)
        self.client.clear()
        self.assertTrue(clouds.wait_for(self.cloud.is_clean), what)
        self.assertEqual([], self.client.left(), what)

    def _why_not(self):
        with contextlib.suppress(Exception):
            return self.cloud.violations()
        return 'the database does not answer'

    def chance(self):
        """Return a source of chance whose seed is printed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        tell(f'{type(self).__name__}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)


def tell(figure):
    """Print a line, and add it to the summary that tools/run-faults prints at the end."""
    print(figure)
    path = os.environ.get(FIGURES)
    if path:
        with open(path, 'a', encoding='utf-8') as file:
            file.write(f'{figure}\n')


def pause(seconds):
    """Sleep for some seconds, if there is no condition to wait for."""
    base.wait_for(lambda: False, seconds, clouds.TICK)
