"""Start, signals and stop of each process."""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from blockattach.platform.health import report
from blockattach.testing import stack
from blockattach.tests.fixtures import forks
from blockattach.tests.functional import base
from blockattach.tests.functional import commands

SECONDS = 180
SETTINGS = """
[DEFAULT]
state_path = {folder}/state
transport_url = inproc://{folder}/
{default}
[api]
port = {port}
[volume]
enabled_backends = disks
{volume}
[disks]
store = fake
target = fake
[health]
file = {folder}/{{process}}.health
interval = {interval}
{last}
"""
PROCESSES = ('api', 'control', 'scheduler', 'volume')
NAMES = {'allinone': 'all'}
# Changes of health are written at once. A process that is suspended for longer than three
# intervals would report itself unhealthy.
HEALTH_SECONDS = 10


class ProcessTestCase(base.StackTestCase):
    """Processes with one configuration, on SQLite, with a bus inside each process."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = stack.free_port()
        self.file = os.path.join(self.folder, 'blockattach.conf')
        self.configure()

    def configure(self, default='', volume='', last=''):
        with open(self.file, 'w', encoding='utf-8') as file:
            file.write(SETTINGS.format(folder=self.folder, port=self.port, default=default,
                                       volume=volume, interval=HEALTH_SECONDS, last=last))

    def append(self, text):
        with open(self.file, 'a', encoding='utf-8') as file:
            file.write(f'{text}\n')

    def command(self, name, *arguments):
        configuration = [] if name == 'status' else ['--config-file', self.file]
        return [f'blockattach-{NAMES.get(name, name)}', *configuration, *arguments]

    def run_once(self, name, *arguments):
        program, *words = self.command(name, *arguments)
        return commands.run(program, words)

    def start(self, name, *arguments):
        begun = forks.Fork(self.command(name, *arguments),
                           pathlib.Path(self.folder, f'{name}.said'))
        self.addCleanup(begun.kill)
        return begun

    def ended(self, begun, number):
        """Send a signal, and return the exit status and the output."""
        begun.send_signal(number)
        return begun.wait(SECONDS), begun.text()

    def reported(self, name):
        """Return the health report of a process, or None before the first one."""
        with contextlib.suppress(OSError):
            return report.read(f'{self.folder}/blockattach-{name}.health')
        return None

    def is_ready(self, name):
        reported = self.reported(name)
        return reported is not None and reported.state is report.State.READY

    def serving(self, name, *arguments):
        """Start a process and wait until it is ready."""
        if not os.path.exists(f'{self.folder}/state'):
            self.assertEqual(0, self.run_once('manage', 'db', 'sync').status)
        begun = self.start(name, *arguments)
        self.assertTrue(base.wait_for(
            lambda: self.is_ready(name) or begun.poll() is not None, SECONDS))
        if begun.poll() is not None:
            self.fail(begun.text())
        return begun

    def ask(self, path):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=SECONDS)
        try:
            connection.request('GET', path, headers={'Accept': 'application/json'})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


class LifecycleTest(ProcessTestCase):

    def test_each_serves_says_so_and_ends_in_order(self):
        for name in PROCESSES:
            with self.subTest(process=name):
                begun = self.serving(name, '--use-json')
                self.assertEqual(begun.pid, self.reported(name).pid)
                asked = self.run_once(
                    'status', 'health', '--file', f'{self.folder}/blockattach-{name}.health',
                    '--max-age', str(SECONDS))
                self.assertEqual((0, f'blockattach-{name} is ready\n'),
                                 (asked.status, asked.output))
                status, said = self.ended(begun, signal.SIGTERM)
                self.assertEqual(0, status, said)
                lines = [json.loads(line) for line in said.splitlines()]
                self.assertFalse([line for line in lines if line['traceback']], said)
                self.assertTrue([line for line in lines if line['message'].endswith('stopped')])
                self.assertIs(report.State.STOPPING, self.reported(name).state)

    def test_ctrl_c_ends_them_in_order_too(self):
        for name in PROCESSES:
            with self.subTest(process=name):
                status, said = self.ended(self.serving(name), signal.SIGINT)
                self.assertEqual((0, False), (status, 'Traceback' in said), said)


class SignalsTest(ProcessTestCase):

    def interpreter(self, name, *arguments):
        """Start a process without the fork server, so that it has to import all modules."""
        script, *words = self.command(name, *arguments)
        begun = subprocess.Popen([pathlib.Path(sys.executable).with_name(script), *words],
                                 text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(begun.stderr.close)
        self.addCleanup(begun.wait)
        self.addCleanup(begun.kill)
        return begun

    def caught(self, begun, number):
        """Return True if the process has installed a handler for a signal."""
        with contextlib.suppress(OSError), open(f'/proc/{begun.pid}/status',
                                                encoding='ascii') as file:
            for line in file:
                if line.startswith('SigCgt:'):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def test_process_stopped_during_start_prints_nothing(self):
        self.assertEqual(0, self.run_once('manage', 'db', 'sync').status)
        # The process blocks when it reads this FIFO, as nothing writes to it.
        os.unlink(self.file)
        os.mkfifo(self.file)
        for name, arguments in (*((name, ()) for name in PROCESSES), ('manage', ('db', 'sync')),
                                ('status', ('health', '--file', 'x')), ('allinone', ())):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(process=name, signal=number):
                    begun = self.interpreter(name, *arguments)
                    # The first statement of a command handles SIGTERM. Python itself handles
                    # SIGINT.
                    self.assertTrue(base.wait_for(
                        lambda begun=begun: self.caught(begun, signal.SIGTERM)
                        or begun.poll() is not None, SECONDS))
                    begun.send_signal(number)
                    said = begun.communicate(timeout=SECONDS)[1]
                    status = begun.returncode
                    self.assertNotIn('Traceback', said)
                    if name == 'status':
                        # This command may end before the signal.
                        self.assertIn(status, (1, -number))
                    else:
                        self.assertEqual((-number, ''), (status, said))

    def test_signal_interrupts_database_wait_at_start(self):
        with socket.create_server(('127.0.0.1', 0)) as silent:
            self.configure(default=f'[database]\nconnection = mysql+pymysql://u:p@127.0.0.1:'
                                   f'{silent.getsockname()[1]}/x?connect_timeout=600')
            for name in ('scheduler', 'manage'):
                with self.subTest(process=name):
                    begun = self.start(name, *(('db', 'sync') if name == 'manage' else ()))
                    silent.settimeout(SECONDS)
                    connection, _ = silent.accept()
                    with connection:
                        status, said = self.ended(begun, signal.SIGTERM)
                    self.assertEqual((-signal.SIGTERM, False), (status, 'Traceback' in said),
                                     said)

    def test_periods_are_read_anew(self):
        begun = self.serving('volume')
        self.assertEqual(HEALTH_SECONDS, self.reported('volume').interval)
        self.configure(volume='reconcile_interval = 7')
        self.append('[health]\ninterval = 2')
        begun.send_signal(signal.SIGHUP)
        self.assertTrue(base.wait_for(lambda: self.reported('volume').interval == 2, SECONDS))
        self.assertTrue(base.wait_for(lambda: 'Configuration reloaded' in begun.text(),
                                      SECONDS))
        self.assertIn('Option volume.reconcile_interval changed', begun.text())

    def test_the_level_of_the_log_is_read_anew(self):
        begun = self.serving('api')
        self.assertEqual(200, self.ask('/v3/p/volumes')[0])
        self.assertNotIn(' DEBUG ', begun.text())
        self.configure(default='debug = true')
        begun.send_signal(signal.SIGHUP)
        self.assertTrue(base.wait_for(lambda: 'Configuration reloaded' in begun.text(),
                                      SECONDS))
        self.assertEqual(200, self.ask('/v3/q/volumes')[0])
        self.assertIn(' DEBUG ', begun.text())

    def test_a_wrong_value_leaves_all_as_it_was(self):
        begun = self.serving('scheduler')
        self.append('[scheduler]\nwaiting_interval = soon')
        begun.send_signal(signal.SIGHUP)
        self.assertTrue(base.wait_for(
            lambda: 'Failed to reload configuration' in begun.text(), SECONDS))
        self.assertIn(f'[scheduler] waiting_interval in {self.file} is invalid', begun.text())
        status, said = self.ended(begun, signal.SIGTERM)
        self.assertEqual((0, False), (status, 'Traceback' in said), said)


class EndTest(base.StackTestCase):
    """Stop of a process during work."""

    def test_a_request_that_runs_is_answered(self):
        status, said, answered = self.stop_while_it_works(graceful_seconds=SECONDS, work_ends=True)
        self.assertEqual((0, True), (status, answered), said)
        self.assertNotIn('left\n', said)

    def test_stop_beyond_graceful_timeout_abandons_work(self):
        status, said, answered = self.stop_while_it_works(graceful_seconds=4, work_ends=False)
        self.assertEqual((1, False), (status, answered), said)
        self.assertIn('blockattach-x: shutdown timed out after 4 seconds', said)
        self.assertIn('left\n', said)

    def test_a_second_signal_ends_the_wait(self):
        status, said, answered = self.stop_while_it_works(
            graceful_seconds=0, work_ends=False, times=2)
        self.assertEqual((128 + signal.SIGTERM, False), (status, answered), said)

    def test_a_signal_is_heard_whichever_thread_gets_it(self):
        """Another thread than the main one receives the signal, as after a suspension."""
        status, said, answered = self.stop_while_it_works(graceful_seconds=SECONDS, work_ends=True,
                                                          thread=True)
        self.assertEqual((0, True), (status, answered), said)

    def test_a_second_signal_is_noticed_while_it_ends_in_each_thread(self):
        """A timeout and a second signal are handled during the stop, in any thread."""
        for number, ends in ((signal.SIGALRM, 1), (signal.SIGTERM, 128 + signal.SIGTERM)):
            with self.subTest(number):
                status, said, answered = self.stop_while_it_works(
                    graceful_seconds=SECONDS, work_ends=False, then=number)
                self.assertEqual((ends, False), (status, answered), said)

    def signal_another_thread(self, begun, number=signal.SIGTERM):
        def sleeps():
            with open(f'/proc/{begun.pid}/stat', encoding='ascii') as file:
                return file.read().rpartition(')')[2].split()[0] == 'S'

        # The main thread is waiting, and only the signal wakes it.
        self.assertTrue(base.wait_for(sleeps, SECONDS))
        thread, *_ = (int(name) for name in os.listdir(f'/proc/{begun.pid}/task')
                      if int(name) != begun.pid)
        self.assertEqual(0, ctypes.CDLL(None).tgkill(begun.pid, thread, number))

    def stop_while_it_works(self, graceful_seconds, work_ends, times=1, thread=False, then=None):
        """Stop a process, and return exit status, errors, and True if its work was done.

        :param then: signal to another thread while the process is stopping
        """
        program = PROGRAM.format(graceful_seconds=graceful_seconds)
        begun = subprocess.Popen([sys.executable, '-c', program], text=True, bufsize=1,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        timer = threading.Timer(SECONDS, begun.kill)
        timer.start()
        try:
            self.assertEqual('works\n', begun.stdout.readline())
            if thread:
                self.signal_another_thread(begun)
            else:
                begun.send_signal(signal.SIGTERM)
            self.assertEqual('stops\n', begun.stdout.readline())
            for _ in range(times - 1):
                begun.send_signal(signal.SIGTERM)
            if then is not None:
                self.signal_another_thread(begun, then)
            if work_ends:
                begun.stdin.write('end\n')
                begun.stdin.flush()
            rest = begun.stdout.read()
            return begun.wait(), begun.stderr.read(), 'done' in rest
        finally:
            timer.cancel()
            begun.kill()
            for stream in (begun.stdin, begun.stdout, begun.stderr):
                with contextlib.suppress(OSError):
                    stream.close()


# Process whose work ends with a line on standard input.
PROGRAM = """
import sys, threading
from blockattach.cmd import process

class Working:
    def __init__(self):
        self.work = threading.Thread(target=sys.stdin.readline, daemon=True)
    def start(self):
        self.work.start()
    def announce(self):
        print('works', flush=True)
    def reload(self):
        return True
    def report(self):
        pass
    def abandon(self):
        print('left', file=sys.stderr, flush=True)
    def stop(self):
        print('stops', flush=True)
        self.work.join()
        print('done', flush=True)

sys.argv = ['x']
def load(conf):
    from blockattach.platform.conf import core
    conf.register_opts(core.OPTS)
    conf.set_default('graceful_shutdown_timeout', {graceful_seconds})
    return Working()
sys.exit(process.run('blockattach-x', load))
"""
