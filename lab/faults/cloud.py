"""Cloud of real processes and servers, whose processes can be made to fail at any failpoint."""
import functools
import json
import signal

import sqlalchemy as sa
from cryptography import fernet

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.platform.db import clock as db_clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.volume import checker
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import make
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from lab.faults import instances
from lab.simulation import nouns
from lab.simulation import operations
from lab.system import fault_clouds

SECONDS = 120
"""Timeout in seconds, which only failures reach even on a busy machine."""
TICK = 0.1
BACKEND_SECONDS = 7
DOWN_SECONDS = 10
MANAGER, SCHEDULER, API, CONTROL = (operations.MANAGER, operations.SCHEDULER, operations.API,
                                    operations.CONTROL)
MANAGE, CONSUMER = operations.MANAGE, operations.CONSUMER
ONCE = {MANAGE: 'blockattach-manage', CONSUMER: 'blockattach.tests.functional.consumer'}
"""Programs that are run to their end when needed."""
TOPIC = 'faults'
SETTINGS = {
    # Timeouts that are short enough to notice a dead process, and to resume its work, within the
    # promised ten seconds.
    'DEFAULT': {'control_exchange': TOPIC},
    'quota': stack.LIMITLESS,
    'rpc': {'topic_prefix': TOPIC, 'silence_timeout': '6', 'repeat_interval': '2',
            'call_timeout': '6', 'short_call_timeout': '2'},
    'service': {'service_down_time': str(DOWN_SECONDS)},
    'health': {'interval': '1'},
    'control': {'backend_seconds': str(BACKEND_SECONDS), 'schedule_seconds': '3',
                'delete_seconds': '6'},
    'scheduler': {'placing_seconds': '3', 'waiting_interval': '1'},
    'volume': {'create_seconds': '6', 'backend_stats_polling_interval': '2'}}
# SQL statements that count the work under way or waiting to be resumed.
_AT_WORK = (*nouns.AT_WORK, 'SELECT COUNT(*) FROM work')


class Cloud(fault_clouds.Cloud):
    """Cloud of an API, a scheduler, a volume manager and a control, each with a switch."""

    PROCESSES = (MANAGER, SCHEDULER, CONTROL, API)
    MANAGERS = {MANAGER: 'disks'}
    APIS = (API,)
    SCHEDULER_HOST = 'storage-1'
    SETTINGS = SETTINGS

    def __init__(self, server, settings=None):
        """
        :param settings: additional configuration options by group
        """
        self.SETTINGS = SETTINGS | (settings or {})
        super().__init__(server)
        self.switches = {name: instances.Switch(self.folder, name)
                         for name in (*self.PROCESSES, *ONCE)}
        self.prepare = {}
        self._target_port = stack.free_port()
        self._kept = None

    def _configure(self, name):
        super()._configure(name)
        # All processes run on one host, so that blockattach-manage uses the same host name.
        text = self._file(name).read_text('utf-8')
        self._file(name).write_text(text.replace(f'storage-{MANAGE}', 'storage-1'), 'utf-8')

    def target_port(self, name):
        """Return the same port for all processes, so that hosts find a restarted target again."""
        return self._target_port

    def _file(self, name):
        return self.folder / f'{name}.conf'

    def fork(self, name, *arguments):
        program = ONCE.get(name) or f'blockattach-{name.partition("-")[0]}'
        file = self._file(API if name == CONSUMER else name)
        return forks.Fork(
            [program, '--config-file', str(file), *arguments], self.log(name),
            prepare=functools.partial(instances.heed, self.folder, name, self.prepare.get(name)))

    def run(self, name, *arguments):
        """Run a program of `ONCE` to its end.

        :returns: its exit status, or the negated number of the signal that ended it
        """
        process = self.fork(name, *arguments)
        try:
            return process.wait(SECONDS)
        finally:
            process.kill()

    def was_killed(self, name):
        """Return True if the process was ended by SIGKILL."""
        return self.processes[name].poll() == -signal.SIGKILL

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def target_pid(self):
        """Return the process ID of the manager's tgtd, which outlives the manager."""
        return int((self.state(MANAGER) / 'tgtd' / 'pid').read_text('ascii').split()[0])

    def is_stopped(self, name):
        """Return True if all threads of the process are stopped. SIGSTOP stops them one by one."""
        return base.is_still(self.processes[name].pid)

    def go_on(self, name):
        """Resume a stopped process, or restart a process that was killed.

        :returns: True if the process was restarted
        """
        if not self.has_ended(name):
            self.signal(name, signal.SIGCONT)
            return False
        self.begin(name)
        return True

    def close(self):
        if self._kept is not None:
            self._kept.close()
        super().close()

    def violations(self):
        """Describe the current violations, and the work that has not ended yet."""
        judge = checker.Checker(self._rows(), {self.served(MANAGER): self.target(MANAGER)})
        found = [f'{one.invariant}: {one.said}' for one in judge.violations()]
        with self._rows().reader() as reader:
            counts = {statement: reader.exec_driver_sql(statement).scalar()
                      for statement in _AT_WORK}
        return found + [f'{number} rows have work under way: {statement}'
                        for statement, number in counts.items() if number]

    def _rows(self):
        """Return the database as the processes see it. Its connections are kept open."""
        if self._kept is None:
            self._kept = storage_db.Database(
                database.open_engine(self.url),
                secrets.Sealer([fernet.Fernet.generate_key()]), clock.Clock())
        return self._kept

    def checked(self):
        """Return the violations that ``blockattach-manage attachments check`` reports."""
        done = commands.run('blockattach-manage', [
            '--config-file', str(self._file(MANAGER)), 'attachments', 'check', '--format', 'json'])
        assert done.output, done.errors
        return json.loads(done.output)['violations']

    def forget_service(self, host, cluster=None):
        """Register a volume service that has sent no heartbeat for an hour."""
        rows = self._rows()
        services.register(rows, binaries.VOLUME, host, make.ZONE, 'long ago', cluster=cluster)
        with rows.writer() as connection:
            table = models.services
            connection.execute(table.update().where(table.c.host == host).values(
                reported_at=db_clock.now(-3600)))

    def is_clean(self):
        """Return True if nothing is violated and no work is under way."""
        try:
            return not self.violations()
        except (sa.exc.SQLAlchemyError, errors.BlockattachError):
            return False


def wait_for(condition):
    """Wait until a condition is true, and return its last value."""
    return base.wait_for(condition, SECONDS, TICK)
