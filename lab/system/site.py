"""Site of two hosts, each with an API, a scheduler and a volume manager of either release.

Clients use the APIs as through a load balancer, which skips an API that refuses the connection.
"""
import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

from blockattach.platform import clock
from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.rules import sources
from lab.system import processes

PROCESSES = ('api', 'scheduler', 'volume')
# Order in which a host stops its processes: callers before the processes that they call.
PAUSE_SECONDS = 0.05
# A request may wait for the restart of a process on a busy machine.
SECONDS = 240


class Balancer:
    """Load balancer of the APIs that are in use."""

    def __init__(self):
        self._changed = threading.Condition()
        self._apis = {}
        self._busy = collections.Counter()
        self._rotation = 0
        self.answered = collections.Counter()

    def use(self, name, api):
        """Add an API."""
        with self._changed:
            self._apis[name] = api

    def drain(self, name):
        """Remove an API and wait until its requests have ended."""
        with self._changed:
            del self._apis[name]
            assert self._changed.wait_for(lambda: not self._busy[name], SECONDS), name

    def ask(self, method, path, body=None):
        """Send a request to one of the APIs, and return status and body like `base.Api.ask`."""
        with self._changed:
            names = sorted(self._apis)
            self._rotation += 1
        for name in names[self._rotation % len(names):] + names[:self._rotation % len(names)]:
            with contextlib.suppress(ConnectionRefusedError), self._busy_with(name) as api:
                if api is not None:
                    answer = api.ask(method, path, body)
                    self.answered[name] += 1
                    return answer
        raise ConnectionError('no API accepts connections')

    @contextlib.contextmanager
    def _busy_with(self, name):
        with self._changed:
            api = self._apis.get(name)
            self._busy[name] += api is not None
        try:
            yield api
        finally:
            with self._changed:
                self._busy[name] -= api is not None
                self._changed.notify_all()


class Clients:
    """Threads of clients that repeat their cycles. Any unexpected result is recorded as a failure.
    """

    def __init__(self, ask):
        self.ask = ask
        self._over = threading.Event()
        self._clock = clock.Clock()
        self._threads = []
        self.failures = []
        self.done = collections.Counter()

    def begin(self, name, cycle, *arguments):
        """Start a thread that repeats a cycle."""
        def go_on():
            while not self._over.is_set():
                try:
                    cycle(*arguments)
                    self.done[name] += 1
                except Exception as exc:
                    self.failures.append((name, repr(exc)))
                self._clock.wait(self._over, PAUSE_SECONDS)
        thread = threading.Thread(target=go_on, name=name)
        self._threads.append(thread)
        thread.start()

    @property
    def names(self):
        """Names of the threads."""
        return [thread.name for thread in self._threads]

    def end(self):
        """Wait until each thread has completed its cycle."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def expect(self, status, method, path, body=None):
        """Send a request and return its body. Raise AssertionError for another status."""
        found, answer = self.ask(method, path, body)
        if found != status:
            raise AssertionError(f'{method} {path}: {found} {answer}')
        return answer

    def attach_and_detach(self, volume_id, host):
        """Attach a volume to a host and detach it."""
        made = self.expect(200, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})['attachment']
        path = f'/attachments/{made["id"]}'
        self.expect(204, 'POST', f'{path}/action', {'os-complete': {}})
        shown = self.expect(200, 'GET', path)['attachment']
        if shown['status'] != 'attached':
            raise AssertionError(shown)
        self.expect(200, 'DELETE', path)

    def make_and_remove(self):
        """Create a volume and delete it."""
        volume_id = self.volume()
        self.expect(202, 'DELETE', f'/volumes/{volume_id}')
        if not base.wait_for(lambda: self.ask('GET', f'/volumes/{volume_id}')[0] == 404, SECONDS):
            raise AssertionError(f'{volume_id} was not deleted')

    def volume(self, **wanted):
        """Create a volume, wait until it is available, and return its id."""
        path = '/volumes/' + self.expect(202, 'POST', '/volumes', {
            'volume': {'size': 1, **wanted}})['volume']['id']
        status = base.wait_for(lambda: (found := self.expect(200, 'GET', path)['volume'][
            'status']) != 'creating' and found, SECONDS)
        if status != 'available':
            raise AssertionError(f'{path}: {status}')
        return path.rpartition('/')[2]


class Site:
    """Hosts with their files in one directory, until `close`."""

    def __init__(self, folder, database_url):
        self._folder = pathlib.Path(folder)
        self._running = {}
        self._common = {('DEFAULT', 'seal_key_file'): f'{folder}/seal.key',
                        ('database', 'connection'): database_url,
                        ('disks', 'target_ip_address'): servers.LOOPBACK,
                        # A host that restarts on a busy machine may be silent for long.
                        ('rpc', 'call_timeout'): str(SECONDS),
                        ('rpc', 'silence_timeout'): str(SECONDS),
                        ('service', 'report_interval'): '2'}
        self._ports = {}
        self._hosts = set()

    def port(self, host, name='api'):
        """Return the port of the API or of the target of a host, the same for all instances."""
        if (host, name) not in self._ports:
            self._ports[host, name] = servers.free_port()
        return self._ports[host, name]

    def configure(self, host, places):
        """Write the configuration of a host with these changes."""
        self._hosts.add(host)
        parser = processes.guided()
        for (group, name), value in {
                **self._common, ('DEFAULT', 'state_path'): str(self._folder / host),
                ('service', 'host'): host, ('api', 'port'): str(self.port(host)),
                ('disks', 'target_port'): str(self.port(host, 'target')), **places}.items():
            if not parser.has_section(group):
                parser.add_section(group)
            parser.set(group, name, value)
        with open(self._file(host), 'w', encoding='utf-8') as file:
            parser.write(file)

    def start(self, host, code=sources.ROOT, only=PROCESSES):
        """Start processes of a host, of the release whose package is in the directory ``code``."""
        for name in only:
            assert (host, name) not in self._running
            self._running[host, name] = self._process(host, name, self.log(host, name), code)

    def stop(self, host):
        """Stop the processes of a host in order, and return exit statuses other than 0 by process.
        """
        found = {}
        for name in PROCESSES:
            process = self._running.pop((host, name))
            process.send_signal(signal.SIGTERM)
            try:
                found[name] = process.wait(SECONDS)
            finally:
                process.kill()
        return {name: status for name, status in found.items() if status}

    def run(self, host, name, *arguments, code=sources.ROOT):
        """Run a command of an operator, and return exit status and output."""
        with tempfile.NamedTemporaryFile() as said:
            process = self._process(host, name, pathlib.Path(said.name), code, *arguments)
            try:
                return process.wait(SECONDS), said.read().decode()
            finally:
                process.kill()

    @staticmethod
    def is_up(host, api):
        """Return True if an API lists scheduler and volume manager of a host as up."""
        with contextlib.suppress(OSError):
            up = {(one['binary'], one['host']) for one in api.list('services', '/os-services')
                  if one['state'] == 'up'}
            return {('cinder-scheduler', host), ('cinder-volume', f'{host}@disks')} <= up
        return False

    @staticmethod
    def living(host, api):
        """Return a condition: an API lists scheduler and volume manager of a host as up.

        Their heartbeats must be newer than at the first evaluation, because an earlier instance
        counts as up for a while.
        """
        names = (('cinder-scheduler', host), ('cinder-volume', f'{host}@disks'))
        reports = []

        def condition():
            with contextlib.suppress(OSError):
                reports.append({(one['binary'], one['host']): one['updated_at']
                                for one in api.list('services', '/os-services')
                                if one['state'] == 'up'})
                return all(reports[-1].get(name) not in (None, reports[0].get(name))
                           for name in names)
            return False
        return condition

    def ended(self):
        """Return the processes that have ended without being stopped."""
        return [place for place, process in self._running.items() if process.poll() is not None]

    def log(self, host, name):
        """Return the path of the log of a process, shared by all instances."""
        return self._folder / f'{host}-{name}.log'

    def tracebacks(self, host):
        """Return the part of a log of a host from its first traceback on, or an empty text."""
        for name in PROCESSES:
            _, found, rest = self.log(host, name).read_text('utf-8').partition('Traceback')
            if found:
                return f'{name}: {rest}'
        return ''

    def complaints(self):
        """Return the warnings and errors of all hosts, for the message of a failure."""
        return '\n' + '\n'.join(
            f'{log.name}: {line}' for log in sorted(self._folder.glob('*.log'))
            for line in log.read_text('utf-8').splitlines()
            if ' WARNING ' in line or ' ERROR ' in line)

    def target(self, host):
        """Return the tgtd of a host, which survives the volume manager and may not be running."""
        return tgtd.Tgtd(str(self._folder / host), (servers.LOOPBACK,),
                         self.port(host, 'target'))

    def close(self):
        """Kill all running processes."""
        for process in self._running.values():
            process.kill()
            process.wait()
        for host in self._hosts:
            self.target(host).stop()

    def _file(self, host):
        return self._folder / f'{host}.conf'

    def _process(self, host, name, log, code, *arguments):
        arguments = ['--config-file', str(self._file(host)), *arguments]
        if code == sources.ROOT:
            return forks.Fork([f'blockattach-{name}', *arguments], log)
        with log.open('ab') as said:
            return subprocess.Popen(
                [sys.executable, '-m', f'blockattach.cmd.{name}', *arguments], stdout=said,
                stderr=said, cwd=code, env={**os.environ, 'PYTHONPATH': str(code)})
