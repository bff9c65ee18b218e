"""Build time of ten servers of one request that share a volume, compared with one server.

The compute API and two agents that keep servers in memory run as separate processes on RabbitMQ.
Block storage is blockattach-all on SQLite, or the services on MariaDB, called over HTTP or over
the bus. The benchmark reads the states of servers from their database, because polling the API
would add load.
"""
import collections
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import requests
import sqlalchemy as sa

from bench import client
from bench import cloud as clouds
from bench import measure
from bench import processes
from bench import results
from bench import session as sessions
from bench import target as targets
from blockattach.testing import ports
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import rabbit

BUILDS = 'builds'
ONE, MANY = 1, 10
ALONE = 'all-in-one'
PLACES = {ALONE: 'http', 'services': 'http', 'services by bus': 'bus'}
"""Deployments of block storage, with the transport of requests for attachments."""
_HOSTS = ('host-a', 'host-b')
_REPEATS = 10
_LOOK_SECONDS = 0.005
_SECONDS = 120.0
_CONFIGURATION = """
[DEFAULT]
state_path = {folder}/compute
log_file = {folder}/{name}.log
[rpc]
calls = transport_url
[block_storage]
endpoint_override = {storage}
transport = {transport}
[compute]
connection = {database}
port = {port}
agent_host = {name}
"""


def measure_builds(session: sessions.Session) -> None:
    """Measure builds of one server and of ten servers alternately, in each place."""
    for place, transport in PLACES.items():
        with contextlib.ExitStack() as running:
            below = (_alone if place == ALONE else _services)(session, running)
            compute = Compute(session, running, below, transport)
            compute.play(MANY)
            compute.clear()
            for _ in range(session.plan.rounds):
                for row in compute.round(f'{BUILDS} {place}'):
                    session.keep(row)
        one, many = (session.results.median(results.OWN, results.Case(
            f'{BUILDS} {place}', count), results.P50) for count in (ONE, MANY))
        if one and many:
            session.results.facts[fact(place)] = round(many / one, 2)


def fact(place: str) -> str:
    """Return the name of the fact with the ratio of a place."""
    return f'{BUILDS}_{place.replace("-", "_").replace(" ", "_")}'


class _Below:
    """Block storage, with the names on the broker.

    :param rows: database of the compute service
    :param file: configuration file with these names
    """

    def __init__(self, target: targets.Target, rows: database.DatabaseFixture,
                 file: pathlib.Path) -> None:
        self.target = target
        self.rows = rows
        self.file = file


def _alone(session: sessions.Session, running: contextlib.ExitStack) -> _Below:
    broker = running.enter_context(rabbit.RabbitFixture())
    _serve(broker.serves)
    file = pathlib.Path(running.enter_context(
        tempfile.TemporaryDirectory(prefix='blockattach-builds-'))) / 'names.conf'
    file.write_text(''.join(f'[{group}]\n{option} = {value}\n' for (group, option), value
                            in broker.options().items()), 'utf-8')
    storage = running.enter_context(stack.Stack('fake'))
    target = targets.Target(
        results.OWN, client.Endpoint(f'{storage.endpoint}/{clouds.PROJECT}'),
        processes.Processes({'all': storage.pid}), clouds.backing(), session.clock)
    target.prepare()
    return _Below(target, running.enter_context(database.DatabaseFixture(migrated=False)), file)


def _services(session: sessions.Session, running: contextlib.ExitStack) -> _Below:
    rows = running.enter_context(database.DatabaseFixture(database.MYSQL, migrated=False))
    cloud = running.enter_context(clouds.Cloud(session.shape(), session.clock))
    _serve(cloud.also_serves)
    return _Below(session.target(cloud), rows, cloud.configuration)


def _serve(serves: Callable[[str, str], None]) -> None:
    for host in _HOSTS:
        serves('compute', host)
    serves('compute-conductor', socket.gethostname())


class Compute:
    """Compute API and its agents, which stop with the exit stack ``running``."""

    def __init__(self, session: sessions.Session, running: contextlib.ExitStack, below: _Below,
                 transport: str) -> None:
        """:raises CannotMeasure: a process does not start"""
        self._clock = session.clock
        self._below = below
        self._folder = running.enter_context(
            tempfile.TemporaryDirectory(prefix='blockattach-builds-'))
        self._port = ports.free_port()
        self._session = running.enter_context(requests.Session())
        self._session.trust_env = False
        self._session.headers.update({'OpenStack-API-Version': 'compute 2.100, blockattach 1.0',
                                      'X-Auth-Token': f'admin:{clouds.PROJECT}'})
        values = {'storage': below.target.endpoint.url.rpartition('/')[0], 'port': self._port,
                  'transport': transport, 'folder': self._folder,
                  'database': clouds.driven(below.rows.url)}
        started = {name: self._start(running, name, module, values) for name, module in (
            ('compute-api', 'compute_api'), *((host, 'compute') for host in _HOSTS))}
        self._own = processes.Processes(started)
        self._until(self._is_ready, 'the start of the compute API and its agents')
        self._volume = below.target.crowd()

    def _start(self, running: contextlib.ExitStack, name: str, module: str,
               values: dict[str, Any]) -> int:
        path = pathlib.Path(self._folder) / f'{name}.conf'
        path.write_text(_CONFIGURATION.format(name=name, **values), 'utf-8')
        files = ['--config-file', str(self._below.file), '--config-file', str(path)]
        python = [sys.executable, '-m']
        if module == 'compute_api':
            done = subprocess.run([*python, 'blockattach.cmd.manage', *files, 'compute_db',
                                   'sync'], capture_output=True, text=True, check=False)
            if done.returncode:
                raise clouds.CannotMeasure(
                    f'blockattach-manage compute_db sync: {done.stderr.strip()}')
        process = subprocess.Popen([*python, f'blockattach.cmd.{module}', *files])
        running.callback(process.wait)
        running.callback(process.terminate)
        return process.pid

    def _is_ready(self) -> bool:
        with contextlib.suppress(requests.ConnectionError):
            found = self._ask('GET', '/os-services')['services']
            return len([one for one in found if one['state'] == 'up']) == len(_HOSTS)
        return False

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._session.request(
            method, f'http://{ports.LOOPBACK}:{self._port}/v2.1{path}', json=body,
            timeout=_SECONDS)
        if not answer.ok:
            raise client.Unexpected(f'{method} {path}', answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        if not self._clock.until(condition, _SECONDS, _LOOK_SECONDS):
            raise clouds.CannotMeasure(f'{what} timed out after {_SECONDS:.0f} seconds')

    def _states(self) -> collections.Counter[str]:
        with self._below.rows.database.reader() as connection:
            return collections.Counter(connection.execute(
                sa.text('SELECT vm_state FROM servers')).scalars())

    def round(self, name: str) -> list[measure.Row]:
        """Measure one round, and return a row for one server and one for many.

        An operation of a row is a request.
        """
        taken: dict[int, list[float]] = {ONE: [], MANY: []}
        own = {count: collections.Counter[str]() for count in taken}
        backing = {count: collections.Counter[str]() for count in taken}
        busy, begin = self._others_ms(), self._clock.monotonic()
        for _ in range(_REPEATS):
            for count in taken:
                before = self._cpu_ms()
                taken[count].append(self.play(count) * 1000)
                after = self._cpu_ms()
                own[count] += after[0] - before[0]
                backing[count] += after[1] - before[1]
                self.clear()
        others = self._others_ms() - busy
        share = others / (self._clock.monotonic() - begin) / 1000 / (os.cpu_count() or 1)
        return [{'target': results.OWN, 'scenario': name, 'clients': count,
                 'peak_pss_mib': {}, 'noise': round(max(0.0, share), 3), **measure.summary({
                     'milliseconds': taken[count], 'seconds': sum(taken[count]) / 1000,
                     'failed': 0, 'errors': {}, 'facts': {}, 'cpu_ms': 0, 'steps': {}},
                     dict(own[count]), dict(backing[count]))} for count in taken]

    def play(self, count: int) -> float:
        """Build servers with one request, and return the seconds until all are active.

        :param count: number of servers
        :raises CannotMeasure: a server is not active
        """
        begin = self._clock.monotonic()
        self._ask('POST', '/servers', {'server': {
            'name': 'bench', 'imageRef': '', 'flavorRef': '1', 'networks': 'none',
            'min_count': count, 'block_device_mapping_v2': [{
                'uuid': self._volume, 'source_type': 'volume', 'destination_type': 'volume',
                'boot_index': 0}]}})
        self._until(lambda: not self._states()['building'], 'the server build')
        seconds = self._clock.monotonic() - begin
        if self._states() != {'active': count}:
            raise clouds.CannotMeasure(f'{count} servers are {dict(self._states())}')
        return seconds

    def clear(self) -> None:
        """Delete all servers, and wait until they are gone."""
        for one in self._ask('GET', '/servers')['servers']:
            self._ask('DELETE', f'/servers/{one["id"]}')
        self._until(lambda: not self._states(), 'the server deletion')

    def _others_ms(self) -> float:
        """Return the total CPU time of processes outside of the services and the benchmark."""
        return processes.machine_busy_ms() - time.process_time() * 1000 - sum(
            sum(one.values()) for one in self._cpu_ms())

    def _cpu_ms(self) -> tuple[collections.Counter[str], collections.Counter[str]]:
        """Return the total CPU time of compute and block storage, and that of database and bus."""
        return (collections.Counter({**self._own.cpu_ms(), **self._below.target.own.cpu_ms()}),
                collections.Counter(self._below.target.backing.cpu_ms()))
