"""Consumer as processes: a compute API, and an agent with servers in memory."""
import contextlib
import pathlib
import signal
import socket
import tempfile

from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import clouds

HOST = 'host-a'
API, AGENT = 'compute-api', 'compute'
MODES = {'OpenStack-API-Version': 'compute 2.100, blockattach 1.0'}
_SERVES = 'Process started'
_CONFIGURATION = """
[DEFAULT]
debug = true
state_path = {folder}
[compute]
port = {port}
agent_host = {host}
act_lease = 10
report_interval = 1
"""


class Consumer:
    """Compute API and agent on RabbitMQ, until `close`.

    :ivar endpoint: URL of the compute API
    """

    def __init__(self, port, settings, scheme='http', broker=None):
        """
        :param port: port of the compute API
        :param settings: additional text of the configuration
        :param broker: names on the broker, shared with block storage. By default its own
        """
        self.endpoint = f'{scheme}://{servers.LOOPBACK}:{port}/v2.1'
        self._folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self._closing = contextlib.ExitStack()
        self._broker = broker or self._closing.enter_context(rabbit.RabbitFixture())
        for topic, host in (('compute', HOST), ('compute-conductor', socket.gethostname())):
            self._broker.serves(topic, host)
        parts = [_CONFIGURATION.format(folder=self._folder.name, port=port, host=HOST), settings]
        parts += [f'[{group}]\n{name} = {value}\n'
                  for (group, name), value in self._broker.options().items()]
        self._file = pathlib.Path(self._folder.name, 'blockattach.conf')
        self._file.write_text('\n'.join(parts), 'utf-8')
        self._running = {}

    def start(self, *names):
        """Start processes and wait until they are ready."""
        for name in names:
            log = pathlib.Path(self._folder.name, f'{name}.log')
            begin = self.text().count(_SERVES)
            self._running[name] = forks.Fork(
                [f'blockattach-{name}', '--config-file', str(self._file)], log)
            assert base.wait_for(lambda begin=begin: self.text().count(_SERVES) > begin,
                                 clouds.SECONDS), self.text()

    def pause(self, name):
        """Suspend a process."""
        base.pause(self._running[name])

    def resume(self, name):
        """Resume a suspended process."""
        self._running[name].send_signal(signal.SIGCONT)

    def kill(self, name):
        """Kill a process."""
        self._running.pop(name).kill()

    def text(self):
        """Return the logs of both processes."""
        return '\n'.join(log.read_text('utf-8', 'replace') for log in sorted(
            pathlib.Path(self._folder.name).glob('*.log')))

    def close(self):
        """Stop both processes, and return the exit statuses other than 0 by process."""
        found = {}
        with contextlib.ExitStack() as ending:
            ending.callback(self._folder.cleanup)
            ending.push(self._closing)
            for name, process in self._running.items():
                ending.callback(process.kill)
                process.send_signal(signal.SIGCONT)
                found[name] = process.end()
        return {name: status for name, status in found.items() if status}
