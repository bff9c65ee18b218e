"""Cloud of separate processes and servers, each of which a test may kill.

It has two APIs, two schedulers and two volume managers. Each manager has a backend and a tgtd that
survives the manager. A test restarts killed processes, as a supervisor would.
"""
import configparser
import contextlib
import pathlib
import signal
import subprocess
import tempfile
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform.health import report
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.conformance import settings
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import clouds

SECONDS = 180
LAST_WORDS = 4000
APIS = ('api-1', 'api-2')
SCHEDULERS = ('scheduler-1', 'scheduler-2')
# All processes, and the backend of each volume manager.
MANAGERS = {'volume-1': 'disks', 'volume-2': 'disks'}
PROCESSES = (*MANAGERS, *SCHEDULERS, *APIS)
QUOTA = 1000
TOPIC = 'faults'
# Short timeouts, so that failures are detected within seconds and not within minutes.
SETTINGS = {
    'DEFAULT': {'control_exchange': TOPIC},
    'rpc': {'topic_prefix': TOPIC, 'silence_timeout': '10'},
    'health': {'interval': '1'},
    'control': {'backend_seconds': '20'},
    'quota': {**stack.LIMITLESS, 'quota_attachments': str(QUOTA)}}
COUNTS = {
    'live': "SELECT COUNT(*) FROM attachments WHERE state <> 'gone'",
    'at work': 'SELECT COUNT(*) FROM attachments WHERE owner IS NOT NULL '
               'OR deadline IS NOT NULL',
    'grants': 'SELECT COUNT(*) FROM grants'}


class Cloud:
    """Servers and processes, started by `start` and ended by `close`.

    A subclass may define other processes. ``MANAGERS`` maps volume managers to their backends.
    """

    PROCESSES = PROCESSES
    MANAGERS = MANAGERS
    APIS = APIS
    SETTINGS = SETTINGS

    def __init__(self, database):
        """
        :param database: class of the database server
        """
        self._folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.folder = pathlib.Path(self._folder.name)
        self.processes = {}
        self.ports = {name: stack.free_port() for name in self.APIS}
        self._target_ports = {name: stack.free_port() for name in self.MANAGERS}
        self._ending = contextlib.ExitStack()
        self._ending.callback(self._folder.cleanup)
        try:
            self.database, self.broker = map(clouds.started, (database, servers.RabbitMQ))
            for server in (self.database, self.broker):
                self._ending.callback(server.close)
            with futures.ThreadPoolExecutor() as starting:
                for begun in [starting.submit(server.start)
                              for server in (self.database, self.broker)]:
                    begun.result()
            self.url = self._make_database()
        except BaseException:
            self.close()
            raise

    def _make_database(self):
        url = sa.make_url(self.database.url)
        engine = sa.create_engine(url, isolation_level='AUTOCOMMIT')
        with engine.connect() as rows:
            rows.exec_driver_sql('CREATE DATABASE blockattach')
        engine.dispose()
        return url.set(database='blockattach').render_as_string(hide_password=False)

    @property
    def endpoints(self):
        return tuple(f'http://127.0.0.1:{port}/v3' for port in self.ports.values())

    def target(self, manager):
        """Return the tgtd target of a manager, for reading without the manager."""
        return tgt.TgtTarget(settings.settings(str(self.state(manager))))

    def state(self, name):
        return self.folder / f'state-{name}'

    def start(self):
        """Create the tables, start all processes and wait until they are ready."""
        for name in (*self.PROCESSES, 'manage'):
            self._configure(name)
        made = self.fork('manage', 'db', 'sync')
        assert made.wait(SECONDS) == 0, made.text()
        for name in self.PROCESSES:
            self.begin(name)
        self.wait_ready(self.PROCESSES)

    def _configure(self, name):
        parser = configparser.ConfigParser(interpolation=None, default_section='')
        parser.read_dict(self.SETTINGS)
        number = name.rpartition('-')[2]
        parser.read_dict({
            'DEFAULT': {'state_path': self.state(name), 'transport_url': self.broker.url,
                        'seal_key_file': self.folder / 'seal.key'},
            'service': {'host': f'storage-{number}', 'report_interval': 1},
            'database': {'connection': self.url},
            'api': {'host': '127.0.0.1', 'port': self.ports.get(name, 0)},
            'health': {'file': self.folder / f'{name}.health'},
            'volume': {'enabled_backends': self.MANAGERS.get(name, ''), 'reconcile_interval': 1},
            'disks': {'store': 'file', 'target': 'tgt',
                      'target_port': self.target_port(name)}})
        with open(self.folder / f'{name}.conf', 'w', encoding='utf-8') as file:
            parser.write(file)

    def target_port(self, name):
        """Return the port of a manager's target, which stays the same after a restart."""
        return self._target_ports.get(name, 0)

    def fork(self, name, *arguments):
        """Start an instance of a process, or a command."""
        return forks.Fork([f'blockattach-{name.partition("-")[0]}', '--config-file',
                           str(self.folder / f'{name}.conf'), *arguments], self.log(name))

    def begin(self, name):
        """Start a process without waiting until it is ready."""
        self._report(name).unlink(missing_ok=True)
        self.processes[name] = self.fork(name)

    def kill(self, name):
        """Kill a process. Its tgtd and the sessions remain."""
        self.processes[name].kill()

    def has_ended(self, name):
        return self.processes[name].poll() is not None

    def log(self, name):
        return self.folder / f'{name}.log'

    def _report(self, name):
        return self.folder / f'{name}.health'

    def is_ready(self, name):
        """Return True if the current instance of a process reports that it is ready."""
        with contextlib.suppress(OSError):
            reported = report.read(self._report(name))
            return (reported.pid == self.processes[name].pid
                    and reported.state is report.State.READY)
        return False

    def wait_ready(self, names):
        """Wait until processes are ready.

        :raises AssertionError: if a process ends or does not become ready
        """
        def ended():
            return [name for name in names if self.has_ended(name)]

        def slow():
            return [name for name in names if not self.is_ready(name)]
        ready = base.wait_for(lambda: ended() or not slow(), SECONDS)
        assert not ended(), '\n'.join(
            f'{name} ended unexpectedly: {self.processes[name].text()[-LAST_WORDS:]}'
            for name in ended())
        # Not checked again, as a process that was suspended for a moment may report itself
        # unhealthy.
        assert ready, f'{slow()} are not ready'

    def stop(self):
        """Stop all processes and return their exit statuses by name."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        return {name: _ended(process) for name, process in self.processes.items()}

    def close(self):
        """Kill all running processes and remove everything."""
        for name in self.processes:
            self.kill(name)
        for name in self.MANAGERS:
            if self.state(name).exists():
                tgtd.Tgtd(str(self.state(name)), ('127.0.0.1',), 0).stop()
        self._ending.close()

    def number(self, statement):
        """Return the number that a query results in."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as rows:
            return int(rows.exec_driver_sql(statement).scalar() or 0)

    def waiting_messages(self):
        """Return the numbers of messages in request queues that are not empty."""
        names = [f'{TOPIC}-scheduler', f'{TOPIC}-volume']
        names += [f'{TOPIC}-scheduler.storage-{number}' for number in (1, 2)]
        names += [f'{TOPIC}-volume.{self.served(name)}' for name in self.MANAGERS]
        with rabbit.connect(self.broker.url) as broker:
            counts = {name: broker.default_channel.queue_declare(
                          name, passive=True).message_count for name in names}
        return {name: count for name, count in counts.items() if count}

    def served(self, manager):
        """Return the name of the backend of a manager."""
        return f'storage-{manager.rpartition("-")[2]}@{self.MANAGERS[manager]}'


def _ended(process):
    try:
        return process.wait(stack.STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return 'stuck'


class FaultCloudTestCase(base.StackTestCase):
    """Cloud that is shared by the tests of a class."""

    DATABASE = servers.MariaDB

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.outside_program(cls('setUp'), tgtd.program(), 'tgtd')
        cls.cloud = Cloud(cls.DATABASE)
        cls.addClassCleanup(cls.cloud.close)
        cls.cloud.start()
        cls.api = base.Api(cls.cloud.endpoints[0])

    def left_over(self, wanted):
        """Return descriptions of all inconsistencies between rows, targets, counts and queues.

        :param wanted: initiators of the expected attachments, by attachment id
        """
        rows = self.api.list('attachments')
        found = [f'attachment {row["id"]} is {row["status"]}' for row in rows
                 if row['status'] != 'attached']
        found += [f'attachment {one} is too much or missing'
                  for one in {row['id'] for row in rows} ^ set(wanted)]
        in_use = {row['volume_id'] for row in rows}
        for volume in self.api.list('volumes'):
            meant = 'in-use' if volume['id'] in in_use else 'available'
            if volume['status'] != meant:
                found.append(f'volume {volume["id"]} is {volume["status"]}, not {meant}')
        meant = {(row['volume_id'], wanted[row['id']], connection.AccessMode(row['attach_mode']))
                 for row in rows if row['id'] in wanted}
        actual = {(grant.volume_id, grant.initiator, grant.mode) for name in MANAGERS
                  for export in self.cloud.target(name).exports() for grant in export.grants}
        found += [f'target grants too much or too little: {grant}' for grant in meant ^ actual]
        counts = {what: self.cloud.number(statement) for what, statement in COUNTS.items()}
        if counts != {**dict.fromkeys(COUNTS, len(rows)), 'at work': 0}:
            found.append(f'the rows are {counts}, and {len(rows)} attachments are shown')
        return found + [f'{count} messages wait in {name}'
                        for name, count in self.cloud.waiting_messages().items()]
