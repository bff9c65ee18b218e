"""Base class of tests of separate processes.

The configuration is the one of ``doc/source/install/separate_processes.rst`` with changed places.
"""
import configparser
import contextlib
import pathlib
import re
import signal
import tempfile

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from blockattach.tests.rules import sources

GUIDE = sources.ROOT / 'doc' / 'source' / 'install' / 'separate_processes.rst'
PROCESSES = ('volume', 'scheduler', 'api')
SERVES = 'Process started'
HOST = 'storage-1'
BACKEND = f'{HOST}@disks'
# Several processes start in parallel, possibly beside other tests.
START_SECONDS = 240


def guided():
    """Return the configuration of the installation guide, without quotas of projects."""
    shown = re.search(r'^\.\. code-block:: ini\n\n((?:    .*\n|\n)+)', GUIDE.read_text(), re.M)
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    parser.read_string(''.join(line[4:] + '\n' for line in shown[1].splitlines()))
    parser.read_dict({'quota': stack.LIMITLESS})
    return parser


class ProcessesTestCase(base.StackTestCase):
    """Processes that `begin` starts with a database server and RabbitMQ, stopped at the end.

    ``OF_OTHERS`` are names of loggers that may log a traceback.
    """

    OF_OTHERS = ()

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        self.rows = database.DatabaseFixture(database.MYSQL, migrated=False)
        self.addCleanup(self.rows.close)
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        bus = self.bus()
        self.started = {}
        # The tgtd survives the volume manager, which is stopped before.
        self.addCleanup(self.target().stop)
        self.addCleanup(self.end)
        self.port = stack.free_port()
        self.configure({
            ('DEFAULT', 'state_path'): f'{self.folder}/state',
            ('service', 'host'): HOST,
            ('database', 'connection'): self.rows.url,
            **bus,
            ('api', 'host'): '127.0.0.1', ('api', 'port'): str(self.port),
            ('disks', 'target_ip_address'): '127.0.0.1', ('disks', 'target_port'): '0'})

    def bus(self):
        """Return the options of the message bus."""
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        broker = rabbit.RabbitFixture()
        self.addCleanup(broker.close)
        for topic, host in (('attachments', HOST), ('scheduler', HOST),
                            ('volume', f'{HOST}@disks'), ('process', f'cinder-volume.{HOST}'),
                            ('process', f'cinder-scheduler.{HOST}')):
            broker.serves(topic, host)
        return broker.options()

    def target(self):
        """Return the tgtd of the volume manager, which may not be running."""
        return tgtd.Tgtd(f'{self.folder}/state', (servers.LOOPBACK,), 0)

    def configure(self, places):
        parser = guided()
        for (group, name), value in places.items():
            if not parser.has_section(group):
                parser.add_section(group)
            parser.set(group, name, value)
        with open(f'{self.folder}/blockattach.conf', 'w', encoding='utf-8') as file:
            parser.write(file)

    def arguments(self, *more):
        return ['--config-file', f'{self.folder}/blockattach.conf', *more]

    def environment(self, name):
        """Return environment variables of a process in addition to those of the tests."""
        return {}

    def start(self, name):
        """Start a process. At the end it must stop cleanly, without a traceback in its log."""
        self.started[name] = forks.Fork([f'blockattach-{name}', *self.arguments()],
                                        pathlib.Path(self.folder, f'{name}.log'),
                                        environment=self.environment(name))

    def end(self):
        for process in self.started.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.started.items():
            try:
                self.assertEqual(0, process.wait(stack.STOP_SECONDS), name)
            finally:
                process.kill()
            self.assertNotIn('Traceback', '\n'.join(
                line for line in process.text().splitlines()
                if not any(other in line for other in self.OF_OTHERS)))

    def run_once(self, name, *arguments, **environment):
        done = commands.run(f'blockattach-{name}', self.arguments(*arguments), environment)
        return done.status, done.output + done.errors

    def everything_up(self):
        with contextlib.suppress(OSError):
            services = self.api.list('services', '/os-services')
            # A process that has registered itself but does not serve yet would be killed by
            # SIGTERM.
            return (len([one for one in services if one['state'] == 'up']) == 2
                    and all(SERVES in one.text() for one in self.started.values()))
        return False

    def begin(self, *more):
        """Create the tables, start the usual processes and ``more``, and wait until they are up.
        """
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        for name in (*PROCESSES, *more):
            self.start(name)
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3')
        self.assertTrue(base.wait_for(self.everything_up, START_SECONDS))
        self.assertEqual(200, self.api.ask('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})[0])
