"""Services of ``etc/container/compose.yaml`` without containers: same commands, files and order.

Addresses, ports, directories and host names of containers are replaced in commands and files by
those of this machine, see the table in `Composition`. MariaDB and RabbitMQ run on this machine,
prepared with the files that their images would read.
"""
import graphlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import sqlalchemy as sa
import yaml

from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import servers
from blockattach.tests.rules import sources

FOLDER = sources.ROOT / 'etc' / 'container'
OF_OTHERS = ('mariadb', 'rabbitmq')
VARIABLES = {'BLOCKATTACH_ADDRESS': servers.LOOPBACK, 'VERSION': '0.0.0'}


class Broker(servers.RabbitMQ):
    """RabbitMQ with the configuration file that is mounted in its container."""

    def __init__(self, mounted):
        self._mounted = mounted
        super().__init__()

    def _listeners(self):
        return f'{super()._listeners()}\n{self._mounted}'

    @property
    def password(self):
        """Password in the mounted file."""
        return re.search('^default_pass = (.*)$', self._mounted, re.M)[1]


class Composition:
    """Services of the composition, from construction until `close`.

    :ivar folder: directory of all files
    :ivar order: names of the services, each after its dependencies
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.services = yaml.safe_load((FOLDER / 'compose.yaml').read_text('utf-8'))['services']
        waiting = {name: one.get('depends_on', {}) for name, one in self.services.items()}
        self.order = list(graphlib.TopologicalSorter(waiting).static_order())
        self.running = {}
        self.api_port, self.target_port, self.keystone_port = (
            servers.free_port() for _ in range(3))
        for name in ('bin', 'etc', 'key', 'keystone', 'run', 'state'):
            (self.folder / name).mkdir(mode=0o700)
        shutil.copy(FOLDER / 'make-secrets', self.folder / 'bin')
        subprocess.run([self.folder / 'bin' / 'make-secrets'], check=True)
        self._secrets = self.folder / 'bin' / 'secrets'
        self.database = servers.MariaDB()
        try:
            self.broker = Broker((self._secrets / 'rabbitmq.conf').read_text())
        except BaseException:
            self.database.close()
            raise
        self._table = (
            ('/opt/keystone-scripts/', f'{self.folder}/bin/'),
            ('/etc/blockattach/', f'{self.folder}/etc/'),
            ('/etc/keystone/', f'{self.folder}/etc/'),
            ('/run/secrets', str(self._secrets)),
            ('/run/blockattach/', f'{self.folder}/run/'),
            ('/var/lib/blockattach-key/', f'{self.folder}/key/'),
            ('/var/lib/blockattach', f'{self.folder}/state'),
            ('/var/lib/keystone', f'{self.folder}/keystone'),
            ('@mariadb:3306', f'@{servers.LOOPBACK}:{self.database.port}'),
            ('@rabbitmq:5672', f'@{servers.LOOPBACK}:{self.broker.port}'),
            ('http://keystone:5000', f'http://{servers.LOOPBACK}:{self.keystone_port}'),
            ('host = 0.0.0.0', f'host = {servers.LOOPBACK}'),
            ('0.0.0.0:5000', f'{servers.LOOPBACK}:{self.keystone_port}'),
            (f'{servers.LOOPBACK}:5000', f'{servers.LOOPBACK}:{self.keystone_port}'),
            (f'{servers.LOOPBACK}:8776', f'{servers.LOOPBACK}:{self.api_port}'),
            ('port = 8776', f'port = {self.api_port}'),
            ('target_port = 3260', f'target_port = {self.target_port}'))
        self._unused = {place for place, _ in self._table}
        for path in (FOLDER / 'blockattach.conf', FOLDER / 'keystone' / 'keystone.conf'):
            self._write(self.folder / 'etc' / path.name, path.read_text('utf-8'))
        for path in self._secrets.iterdir():
            self._write(path, path.read_text('utf-8'))
        # Scripts of an image are copied with the places that they name replaced.
        for path in (FOLDER / 'keystone').glob('*.*'):
            self._write(self.folder / 'bin' / path.name, path.read_text('utf-8'))

    def start_servers(self):
        """Start MariaDB and RabbitMQ, and execute the SQL that the image reads at its first start.
        """
        self.database.start()
        self.broker.start()
        with sa.create_engine(self.database.url).connect() as connection:
            for line in (self._secrets / 'databases.sql').read_text().splitlines():
                connection.execute(sa.text(line))

    def begin(self, name):
        """Start a service. A service that runs once is awaited and must succeed."""
        service = self.services[name]
        log = self.log(name)
        with log.open('ab') as said:
            process = subprocess.Popen(
                self._words(service['command']), stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, cwd=self.folder, env=self._environment(service),
                start_new_session=True)
        self.running[name] = process
        if service['restart'] == 'no':
            assert process.wait(polling.LIMIT) == 0, (name, log.read_text())
            del self.running[name]
        else:
            polling.until(lambda: self.is_healthy(name) or process.poll() is not None)
            assert process.poll() is None, (name, log.read_text())

    def is_healthy(self, name):
        """Return True if the health check of a service succeeds."""
        service = self.services[name]
        kind, *words = service['healthcheck']['test']
        assert kind == 'CMD'
        return subprocess.run(
            self._words(words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=self._environment(service),
            check=False).returncode == 0

    def end(self, name):
        """Stop a service as compose does and return its exit status.

        :raises subprocess.TimeoutExpired: if the service does not end within its grace period
        """
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(int(self.services[name]['stop_grace_period'].removesuffix('s')))
        finally:
            _kill(process)

    def log(self, name):
        """Return the path of the log of a service."""
        return self.folder / f'{name}.log'

    def secret(self, name):
        """Return the content of a file of secrets."""
        return (self._secrets / name).read_text('utf-8').strip()

    def unused(self):
        """Return the entries of the table that no command or file has used."""
        return self._unused

    def close(self):
        """Kill all running processes."""
        for process in self.running.values():
            _kill(process)
        self.broker.close()
        self.database.close()

    def _environment(self, service):
        own = {name: value for name, value in os.environ.items()
               if not name.startswith(('OS_', 'BLOCKATTACH_'))}
        path = f'{os.path.dirname(sys.executable)}:{own["PATH"]}'
        return {**own, 'PATH': path, **{name: self._here(value) for name, value in service.get(
            'environment', {}).items()}}

    def _words(self, words):
        return [self._here(word) for word in words]

    def _here(self, text):
        text = re.sub(r'\$\{(\w+)[^}]*\}', lambda found: VARIABLES[found[1]], text)
        for place, here in self._table:
            if place in text:
                self._unused.discard(place)
                text = text.replace(place, here)
        return text

    def _write(self, path, text):
        path.write_text(self._here(text), 'utf-8')


def _kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
