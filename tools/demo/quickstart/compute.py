"""Execution of `tools/quickstart --compute` after the installation: servers that share a volume.

The servers are QEMU guests on three virtual hosts of this machine. blockattach-all, RabbitMQ, the
compute API, the agent of each host, and each guest are separate processes. They are stopped at the
end of the story or by Ctrl-C.
"""
import argparse
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import requests

from blockattach.compute.hosts import qemu
from blockattach.compute.hosts import qemu_process
from blockattach.platform import clock as clocks
from blockattach.testing import guests
from blockattach.testing import ports
from blockattach.testing import stack
from blockattach.tests.fixtures import servers
from demo.quickstart import command
from demo.quickstart import story as stories

HOSTS = ('host-a', 'host-b', 'host-c')
VERSIONS = {'OpenStack-API-Version': 'compute 2.100, volume 3.71, blockattach 1.0'}
SECONDS = 120.0
ANSWER_SECONDS = 10.0
"""Timeout of a request to a guest that may be migrating. Its console is lost with the migration,
and the request is repeated on the new one.
"""
POLL_SECONDS = 0.2
FIRST, SECOND = b'written by the writer', b'and once more'
CONFIGURATION = """
[DEFAULT]
state_path = {folder}
transport_url = {broker}
log_file = {folder}/{name}.log
[block_storage]
endpoint_override = {storage}
[compute]
port = {port}
agent_host = {name}
kind = qemu
accelerator = {accelerator}
guest_kernel = {kernel}
guest_initrd = {initrd}
guest_append = {append}
report_interval = 1
agent_down_time = 5
"""


class Cloud(contextlib.ExitStack):
    """All processes of the demonstration, as a context manager that stops them."""

    def __init__(self, say: Callable[[str], None], accelerator: str) -> None:
        super().__init__()
        self._say = say
        self._accelerator = accelerator
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.port = ports.free_port()

    def start(self) -> None:
        """Start all processes.

        :raises CannotStart: a process does not start
        """
        self.folder = pathlib.Path(self.enter_context(
            tempfile.TemporaryDirectory(prefix='blockattach-compute-')))
        self._say('Starting blockattach-all and RabbitMQ')
        self.storage = self.enter_context(stack.Stack('file'))
        self._broker = self.enter_context(servers.RabbitMQ())
        self._boots = guests.find().build(str(self.folder))
        self._say(f'Starting the compute API and the agents of {", ".join(HOSTS)}')
        # Guests survive the end of their agents, so they are destroyed separately.
        self.callback(self._end_guests)
        self._process('compute_api', 'compute-api')
        for host in HOSTS:
            self.agents[host] = self._process('compute', host)
        stories.expect(clocks.Clock().until(self._listens, SECONDS, POLL_SECONDS),
                                'the compute API did not start')

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(
                (ports.LOOPBACK, self.port), SECONDS):
            return True
        return False

    def _end_guests(self) -> None:
        for name in HOSTS:
            host = qemu.QemuHost(qemu.QemuSettings(str(self.folder / 'compute' / name), name))
            for server_id in host.servers():
                host.destroy(server_id)

    def _process(self, module: str, name: str) -> subprocess.Popen[bytes]:
        path = self.folder / f'{name}.conf'
        path.write_text(CONFIGURATION.format(
            folder=self.folder, name=name, broker=self._broker.url, port=self.port,
            storage=self.storage.endpoint, accelerator=self._accelerator,
            kernel=self._boots.kernel, initrd=self._boots.initrd, append=self._boots.append),
            'utf-8')
        process = subprocess.Popen(
            [sys.executable, '-m', f'blockattach.cmd.{module}', '--config-file', str(path)])
        self.callback(_end, process)
        return process

    def console(self, host: str, server_id: str, seconds: float = SECONDS) -> guests.Console:
        """Return the serial console of a guest.

        :param seconds: time within which the guest must respond
        """
        return guests.Console(str(self.folder / 'compute' / host / server_id
                                  / qemu_process.CONSOLE), seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


class Story:
    """Steps that build on each other. The attachment tree is printed after each step."""

    def __init__(self, cloud: Cloud, say: Callable[[str], None]) -> None:
        self._cloud = cloud
        self._say = say
        self._clock = clocks.Clock()
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(VERSIONS)
        self._volume = ''
        self._writer = self._one = self._two = ''
        self.steps: tuple[tuple[str, Callable[[], str]], ...] = (
            ('Create a multiattach volume', self._create),
            ('Boot three guests in one request, one read-write and two read-only', self._boot),
            ('Write on the first guest, read on the others', self._write),
            ('Try to write on a read-only guest', self._try_to_write),
            ('Live-migrate the first guest while it is writing', self._migrate),
            ('Kill the agent of a host and evacuate its guest', self._evacuate),
            ('Delete the servers and the volume', self._delete),
        )

    def clean(self) -> None:
        """Do nothing, because all resources end with the cloud."""

    def draw(self) -> None:
        """Print the attachment tree."""
        done = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), 'openstack'), '--os-auth-type', 'none',
             '--os-endpoint', self._cloud.storage.endpoint, 'volume', 'attachment', 'tree'],
            capture_output=True, text=True, check=False,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore', 'PYTHONIOENCODING': 'utf-8'})
        for line in (done.stdout or done.stderr).splitlines():
            self._say(f'      | {line}')

    def _ask(self, method: str, path: str, body: Any = None, storage: bool = False) -> Any:
        endpoint = self._cloud.storage.endpoint if storage else \
            f'http://{ports.LOOPBACK}:{self._cloud.port}/v2.1'
        answer = self._session.request(method, f'{endpoint}{path}', json=body, timeout=SECONDS)
        if answer.status_code >= 400:
            raise stories.StoryFailed(f'{method} {path}: {answer.text}')
        return answer.json() if answer.content else None

    def _until(self, look: Callable[[], bool], otherwise: str) -> None:
        stories.expect(self._clock.until(look, SECONDS, POLL_SECONDS), otherwise)

    def _server(self, server_id: str) -> dict[str, Any]:
        return dict(self._ask('GET', f'/servers/{server_id}')['server'])

    def _host(self, server_id: str) -> str:
        return str(self._server(server_id)['OS-EXT-SRV-ATTR:host'])

    def _settled(self, server_id: str, status: str = 'ACTIVE') -> None:
        def is_so() -> bool:
            shown = self._server(server_id)
            stories.expect(shown['status'] != 'ERROR', str(shown.get('fault')))
            return (shown['status'], shown['OS-EXT-STS:task_state']) == (status, None)

        self._until(is_so, f'server {server_id} did not reach status {status}')

    def _modes(self, server_id: str) -> dict[str, str]:
        return {one['volumeId']: one['attach_mode'] for one in self._ask(
            'GET', f'/servers/{server_id}/os-volume_attachments')['volumeAttachments']}

    def _disk(self, server_id: str, seconds: float = SECONDS) -> tuple[guests.Console, str]:
        """Return the serial console of a guest, and the name of the volume in the guest."""
        console = self._cloud.console(self._host(server_id), server_id, seconds)
        found: list[str] = []

        def is_seen() -> bool:
            found[:] = [disk.name for disk in console.disks()
                        if self._volume.startswith(disk.serial)]
            return bool(found)

        self._until(is_seen, f'the guest of server {server_id} does not show the volume')
        return console, found[0]

    def _create(self) -> str:
        self._volume = self._ask('POST', '/volumes', {'volume': {
            'size': 1, 'name': 'shared', 'volume_type': stories.TYPE}},
            storage=True)['volume']['id']
        self._until(lambda: self._ask('GET', f'/volumes/{self._volume}', storage=True)[
            'volume']['status'] == 'available', 'the volume did not reach status available')
        return '1 GiB, available'

    def _boot(self) -> str:
        self._until(lambda: len(self._ask('GET', '/os-services')['services']) == len(HOSTS),
                    'the agents did not report')
        reservation = self._ask('POST', '/servers', {'server': {
            'name': 'guest', 'imageRef': 'kernel', 'flavorRef': '1', 'networks': 'none',
            'min_count': 3, 'max_count': 3, 'return_reservation_id': True,
            'block_device_mapping_v2': [{
                'uuid': self._volume, 'source_type': 'volume', 'destination_type': 'volume',
                'boot_index': -1, 'attach_modes': ['rw', 'ro', 'ro']}]}})['reservation_id']
        found = self._ask('GET', f'/servers/detail?reservation_id={reservation}')['servers']
        for one in found:
            self._settled(one['id'])
            self._cloud.console(self._host(one['id']), one['id']).wait()
        self._writer, self._one, self._two = (one['id'] for one in sorted(
            found, key=lambda one: str(one['name'])))
        stories.expect(
            [self._modes(one) for one in (self._writer, self._one, self._two)]
            == [{self._volume: mode} for mode in ('rw', 'ro', 'ro')], 'the access modes are wrong')
        hosts = ', '.join(self._host(one['id']) for one in found)
        return f'three guests with the volume on {hosts}'

    def _attached(self) -> int:
        return sum(one['status'] == 'attached' for one in self._ask(
            'GET', f'/attachments/detail?volume_id={self._volume}', storage=True)['attachments'])

    def _write(self) -> str:
        console, disk = self._disk(self._writer)
        stories.expect(console.write(disk, FIRST), 'the write failed')
        for reader in (self._one, self._two):
            console, disk = self._disk(reader)
            stories.expect(console.read(disk) == FIRST,
                                    'a read-only guest read different data')
        return 'both read-only guests read the data'

    def _try_to_write(self) -> str:
        console, disk = self._disk(self._one)
        stories.expect(not console.write(disk, b'overwritten'), 'the write succeeded')
        stories.expect(console.read(disk) == FIRST, 'the data changed')
        return 'rejected, data unchanged'

    def _migrate(self) -> str:
        source = self._host(self._writer)
        wrote = _Writing(lambda: self._disk(self._writer, ANSWER_SECONDS))
        with wrote:
            wrote.further()
            self._ask('POST', f'/servers/{self._writer}/action', {'os-migrateLive': {
                'host': None, 'block_migration': 'auto'}})
            self._settled(self._writer)
            wrote.further()
        destination = self._host(self._writer)
        stories.expect(destination != source, 'the guest was not migrated')
        console, disk = self._disk(self._one)
        stories.expect(console.read(disk).startswith(SECOND),
                                'a read-only guest read different data')
        return f'migrated from {source} to {destination}, {wrote.count} writes'

    def _evacuate(self) -> str:
        source = self._host(self._two)
        self._cloud.agents[source].kill()
        self._until(lambda: any(
            one['host'] == source and one['state'] == 'down'
            for one in self._ask('GET', '/os-services')['services']),
            'the agent is not reported as down')
        self._ask('POST', f'/servers/{self._two}/action', {'evacuate': {'host': None}})
        self._settled(self._two)
        destination = self._host(self._two)
        self._cloud.console(destination, self._two).wait()
        console, disk = self._disk(self._two)
        stories.expect(console.read(disk).startswith(SECOND),
                                'the evacuated guest read different data')
        self._cloud.agents[source] = self._cloud._process('compute', source)
        self._until(lambda: not (self._cloud.folder / 'compute' / source / self._two).exists(),
                    'the old guest was not destroyed')
        return (f'evacuated from {source} to {destination}, old guest destroyed when the agent '
                'returned')

    def _delete(self) -> str:
        for server_id in (self._writer, self._one, self._two):
            self._ask('DELETE', f'/servers/{server_id}')
        self._until(lambda: not self._ask('GET', '/servers')['servers'],
                    'the servers were not deleted')
        self._until(lambda: self._attached() == 0, 'the attachments were not deleted')
        self._ask('DELETE', f'/volumes/{self._volume}', storage=True)
        self._until(lambda: not self._ask('GET', '/volumes', storage=True)['volumes'],
                    'the volume was not deleted')
        return 'servers and volume deleted'


class _Writing:
    """Background thread in which a guest writes repeatedly during a ``with`` block.

    While the guest is migrated, the thread searches for its new console.
    """

    def __init__(self, find: Callable[[], tuple[guests.Console, str]]) -> None:
        self.count = 0
        self._find = find
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> '_Writing':
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def further(self) -> None:
        """Wait until the guest has written three times more."""
        wanted = self.count + 3
        stories.expect(
            clocks.Clock().until(lambda: self.count >= wanted, SECONDS, POLL_SECONDS),
            f'the writing guest stopped after {self.count} writes')

    def _write(self) -> None:
        found = None
        while not self._over.is_set():
            try:
                console, disk = found = found or self._find()
                self.count += console.write(disk, SECOND)
            except (guests.GuestError, OSError, ValueError, stories.StoryFailed):
                # The guest has a new console on the destination of the migration.
                found = None


def play(cloud: Cloud) -> list[stories.Shown]:
    """Play all steps, and print the attachment tree after each step."""
    story = Story(cloud, command.say)
    shown = []
    for number, (title, act) in enumerate(story.steps, 1):
        command.say(f'[{number}/{len(story.steps)}] {title}')
        begin = clocks.Clock().monotonic()
        try:
            text = act()
        except (stories.StoryFailed, guests.GuestError,
                requests.RequestException) as exc:
            raise stories.StoryFailed(f'{title}: {exc}') from exc
        shown.append(stories.Shown(title, text, clocks.Clock().monotonic() - begin))
        command.say(f'      {text}')
        story.draw()
    return shown


def main(arguments: list[str]) -> int:
    """Run the command.

    :returns: exit status: 0 on success, 1 on failure, 130 if interrupted
    """
    parser = argparse.ArgumentParser(prog='tools/quickstart --compute')
    parser.add_argument('--exit', action='store_true')
    parser.add_argument('--accelerator', default='tcg')
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    os.environ['no_proxy'] = ','.join(filter(None, (os.environ.get('no_proxy'), ports.LOOPBACK)))
    missing = guests.find().missing()
    if missing is not None:
        print(f'Cannot start: {missing}', file=sys.stderr)
        return 1
    return command.status(lambda: serve(options),
                                 (servers.CannotStart, stack.StackRefused))


def serve(options: argparse.Namespace) -> int:
    """Play the story, and then serve until a signal or, with ``--exit``, stop.

    :returns: exit status
    """
    with Cloud(command.say, options.accelerator) as cloud:
        cloud.start()
        for line in stories.table(play(cloud)):
            command.say(line)
        if not options.exit:
            command.say(
                f'\nThe compute API is serving at http://{ports.LOOPBACK}:{cloud.port}/v2.1, '
                f'block storage at {cloud.storage.endpoint}. Ctrl-C stops all processes.')
            signal.pause()
    return 0
