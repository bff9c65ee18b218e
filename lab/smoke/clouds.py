"""Cloud as the guides describe it: Keystone, MariaDB, RabbitMQ, tgtd and three processes."""
import contextlib
import functools
import io
import pathlib
import tempfile

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from lab.system import processes

HOST = 'storage-1'
PROCESSES = ('volume', 'scheduler', 'api')
PEOPLE = {'ann': ('shop', 'member'), 'nova': ('service', 'service'),
          'blockattach': ('service', 'service')}


class Cloud:
    """Cloud that runs from its construction until `close`."""

    def __init__(self):
        with contextlib.ExitStack() as stack_:
            self.folder = pathlib.Path(stack_.enter_context(
                tempfile.TemporaryDirectory(prefix='blockattach-')))
            self.keystone = stack_.enter_context(keystone.Keystone())
            self.passwords = {name: self.keystone.person(name, *place)
                              for name, place in PEOPLE.items()}
            self.passwords['admin'] = self.keystone.password
            self.nova = stack_.enter_context(nova.NovaStandIn())
            self.rows = stack_.enter_context(contextlib.closing(
                database.DatabaseFixture(database.MYSQL, migrated=False)))
            self._broker = stack_.enter_context(rabbit.RabbitFixture())
            for topic, host in (('scheduler', HOST), ('volume', f'{HOST}@disks'),
                                ('process', f'cinder-volume.{HOST}'),
                                ('process', f'cinder-scheduler.{HOST}')):
                self._broker.serves(topic, host)
            self.configuration = self.folder / 'blockattach.conf'
            self.port, self.target_port = stack.free_port(), stack.free_port()
            self._configure()
            self.running = {}
            stack_.callback(tgtd.Tgtd(str(self.folder / 'state'), (servers.LOOPBACK,),
                                      self.target_port).stop)
            stack_.callback(self._kill)
            self.run('manage', 'db', 'sync')
            for name in PROCESSES:
                self.start(name)
            self.endpoint = f'http://{servers.LOOPBACK}:{self.port}/v3'
            self.keystone.service('cinderv3', 'block-storage', self.endpoint)
            self.storage = self.connect('ann').block_storage
            self.admin = self.connect('admin').block_storage
            polling.until(self.is_up, 'the cloud is not up')
            self.admin.create_type(name='shared', extra_specs={'multiattach': '<is> True'})
            self._closing = stack_.pop_all()

    def _configure(self):
        parser = processes.guided()
        for (group, name), value in {
                ('DEFAULT', 'state_path'): f'{self.folder}/state',
                ('service', 'host'): HOST,
                ('database', 'connection'): self.rows.url,
                **self._broker.options(),
                ('api', 'host'): servers.LOOPBACK, ('api', 'port'): str(self.port),
                ('api', 'auth_strategy'): 'keystone',
                ('nova', 'endpoint_override'): self.nova.url,
                ('disks', 'target_port'): str(self.target_port)}.items():
            if not parser.has_section(group):
                parser.add_section(group)
            parser.set(group, name, value)
        parser.read_string(self.keystone.authtoken('blockattach', self.passwords['blockattach'],
                                                   'service'))
        text = io.StringIO()
        parser.write(text)
        self.configuration.write_text(text.getvalue(), 'utf-8')

    def connect(self, name, **facts):
        """Return an openstacksdk connection of a user."""
        project = PEOPLE[name][0] if name in PEOPLE else name
        return self.keystone.cloud(name, self.passwords[name], project, **facts)

    def run(self, program, *arguments, configuration=None, status=0):
        """Run a command to its end, check its exit status, and return its output."""
        log = self.folder / f'{program}.{len([*self.folder.iterdir()])}.said'
        done = forks.Fork([f'blockattach-{program}', '--config-file',
                           str(configuration or self.configuration), *arguments], log)
        found = done.wait()
        assert found == status, (program, arguments, found, done.text())
        return done.text()

    def start(self, name):
        """Start one of the processes, for the first time or again."""
        self.running[name] = forks.Fork(
            [f'blockattach-{name}', '--config-file', str(self.configuration)],
            self.folder / f'{name}.log')

    def is_up(self):
        """Return True if the API answers and lists the other processes as up."""
        with contextlib.suppress(Exception):
            states = {one.binary: one.state for one in self.admin.services()}
            return states == dict.fromkeys(('cinder-scheduler', 'cinder-volume'), 'up')
        return False

    def a_volume(self, storage=None, **wanted):
        """Create a multiattach volume for the user ann, and wait until it is available."""
        volume = (storage or self.storage).create_volume(
            size=1, **{'volume_type': 'shared', **wanted})
        return polling.until(functools.partial(self.with_status, volume.id, 'available'))

    def with_status(self, volume_id, status):
        """Return the volume if it has the status, else None."""
        found = self.storage.get_volume(volume_id)
        assert not found.status.startswith('error'), found
        return found if found.status == status else None

    def _kill(self):
        for process in self.running.values():
            process.kill()

    def close(self):
        """End the processes in order, then their servers.

        :raises AssertionError: if a process did not end with status 0, or has logged a traceback
        """
        with self._closing:
            for name in reversed(PROCESSES):
                assert self.running[name].end() == 0, self.running[name].text()
                assert 'Traceback' not in self.running[name].text(), self.running[name].text()
