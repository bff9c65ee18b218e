"""tgtd survives its volume manager: a host writes during a restart and an upgrade.

Its survival of a killed manager is tested by ``lab/faults``, and sessions during the replacement
of a release by ``test_upgrade``.
"""
import os
import signal

from blockattach.storage.rpc import history
from blockattach.testing import scsi
from blockattach.testing import stack
from blockattach.tests.fixtures import rabbit
from blockattach.tests.functional import base
from lab.system import processes
from lab.system import streams

SECONDS = 120
BLOCKS = 20
STOPPED_FIRST = ('api', 'control', 'scheduler', 'volume')
"""Order of the upgrade guide: callers before the processes that they call."""


class OutlivesTest(processes.ProcessesTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(scsi.available(), 'libiscsi')
        self.begin('control')
        self.writer = self.a_writer('writer')
        self.found = self.seen()

    def configure(self, places):
        self.places = {**getattr(self, 'places', {}), **places}
        super().configure(self.places)

    def a_writer(self, host):
        """Attach a new volume to a host that writes to it, and never logs in again."""
        made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.a_volume(self.api), 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})[1]['attachment']
        self.assertEqual(204, self.api.ask('POST', f'/attachments/{made["id"]}/action', {
            'os-complete': None})[0])
        stream = streams.Stream(host, made['connection_info'], 0)
        self.addCleanup(stream.close)
        self.goes_on(stream)
        return stream

    def goes_on(self, stream):
        """Check that the host continues to write and to read its data."""
        wanted = stream.count + BLOCKS
        self.assertTrue(base.wait_for(
            lambda: stream.wrong or stream.count >= wanted, SECONDS), stream.count)
        self.assertEqual([], stream.wrong)

    def seen(self):
        """Return the process id of tgtd and the sessions of the writer."""
        client, name = self.target().client(), base.connector('writer')['initiator']
        return client.pid(), [session for target in client.targets()
                              for session in target.sessions if session.initiator == name]

    def stop(self, *names):
        for name in names:
            process = self.started.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                self.assertEqual(0, process.wait(stack.STOP_SECONDS), name)
            finally:
                process.kill()

    def is_as_it_was(self):
        """Check that tgtd and the session of the writer are the same as before."""
        self.goes_on(self.writer)
        self.assertEqual(self.found, self.seen())

    def serves(self):
        """Check that the current manager attaches another host at the existing target."""
        self.a_writer(f'other-{self.log().count("Volume service started")}')
        self.is_as_it_was()

    def log(self):
        with open(f'{self.folder}/volume.log', encoding='utf-8') as file:
            return file.read()

    def manage(self, *arguments):
        status, said = self.run_once('manage', *arguments)
        self.assertEqual(0, status, said)

    def ends(self):
        """Stop the writer, and check all data that it has written."""
        self.writer.close()
        self.assertEqual([], self.writer.wrong)

    def test_a_restart(self):
        self.stop('volume')
        self.is_as_it_was()
        self.start('volume')
        self.serves()
        self.assertEqual(1, self.log().count('tgtd started'))
        self.assertEqual(1, self.log().count('tgtd found running'))
        # The previous instance of the manager has started tgtd with memory clearing.
        self.assertNotIn('memory clearing of tgtd', self.log())
        self.ends()

    def test_an_upgrade(self):
        """Follow the steps of doc/source/admin/upgrade.rst on one host."""
        self.manage('db', 'sync', '--expand')
        for release in (history.RELEASES[-1].name, 'auto'):
            self.configure({('rpc', 'release'): release})
            self.stop(*STOPPED_FIRST)
            self.is_as_it_was()
            for name in reversed(STOPPED_FIRST):
                self.start(name)
            self.assertTrue(base.wait_for(self.everything_up, processes.START_SECONDS))
            self.serves()
        self.manage('db', 'online_data_migrations')
        self.manage('db', 'sync', '--contract')
        self.is_as_it_was()
        self.ends()

    def test_hanging_tgtd_not_logged_as_dead(self):
        pid, _ = self.found
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.assertTrue(base.wait_for(lambda: 'Target process stalled' in self.log(), SECONDS))
        os.kill(pid, signal.SIGCONT)
        self.assertTrue(base.wait_for(lambda: 'Target process recovered' in self.log(), SECONDS))
        self.is_as_it_was()
        self.assertNotIn('Target process died', self.log())
        self.ends()

    def test_hanging_tgtd_stopped_by_force_restarted(self):
        pid, _ = self.found
        os.kill(pid, signal.SIGSTOP)
        self.assertTrue(base.wait_for(lambda: 'Target process stalled' in self.log(), SECONDS))
        status, said = self.run_once('manage', 'target', 'stop')
        self.assertEqual(1, status, said)
        self.assertIn('no response', said)
        self.manage('target', 'stop', '--force')
        # Its sessions ended with it, but the hosts may log in to the new process.
        self.assertTrue(base.wait_for(lambda: self.writer.wrong, SECONDS))
        self.assertTrue(base.wait_for(lambda: 'Target process recovered' in self.log(), SECONDS))
        hung, died, back = (self.log().index(word) for word in (
            'Target process stalled', 'Target process died', 'Target process recovered'))
        self.assertTrue(hung < died < back)
        self.assertNotEqual(pid, self.target().client().pid())
        self.a_writer('another')

    def test_orphaned_tgtd_logged(self):
        broker = rabbit.RabbitFixture(self.places['DEFAULT', 'transport_url'],
                                      self.places['rpc', 'topic_prefix'])
        self.addCleanup(broker.close)
        broker.serves('volume', f'{processes.HOST}@others')
        self.stop('volume')
        self.configure({('volume', 'enabled_backends'): 'others',
                        ('others', 'store'): 'fake', ('others', 'target'): 'fake'})
        self.start('volume')
        self.assertTrue(base.wait_for(
            lambda: self.log().count('Volume service started') == 2, SECONDS))
        self.assertIn('Orphaned tgtd found running', self.log())
        self.is_as_it_was()
        self.stop('volume')
