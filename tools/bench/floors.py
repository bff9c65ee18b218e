"""Measurement of the floor (`bench.floor`) on the database of a cloud, next to its rows.

The API of the floor runs under the same WSGI server as the API of the service, with the same file
in ``etc``.
"""
import contextlib
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator

import sqlalchemy as sa

from bench import acts
from bench import client
from bench import cloud as clouds
from bench import floor
from bench import measure
from bench import processes
from bench import results
from bench import scenarios
from bench import target as targets
from blockattach.platform import clock as clocks
from blockattach.storage.db import models
from blockattach.tests.fixtures import servers

SCENARIOS = floor.SCENARIOS
_PROJECT = 'floor'
_SHOWN = 2
_LOOKS, _LOOK_SECONDS = 600, 0.05
# Threads of each process: for the requests that the API executes concurrently, and for the same
# number of requests that wait for the manager.
_THREADS = 16


class Floor:
    """Floor of a cloud.

    Its processes run only during a measurement, because other processes need the limited
    connections of the database.

    :param kept: True if clients reuse connections
    """

    def __init__(self, cloud: clouds.Cloud, clock: clocks.Clock, kept: bool = False) -> None:
        self._cloud = cloud
        self._clock = clock
        self._kept = kept

    def measure(self, scenario: str, load: scenarios.Load) -> measure.Row:
        """Measure a scenario, and return a row like that of a target.

        :raises CannotMeasure: the floor does not start
        """
        items = self._items(scenario, load.clients)
        with self._running() as target:
            return scenarios.Stage(target, self._clock).play(scenario, acts.Job(
                scenario, target.endpoint, items, load.seconds, load.warmup))

    @contextlib.contextmanager
    def _running(self) -> Iterator[targets.Target]:
        manager_port, port = servers.free_port(), servers.free_port()
        script = (clouds.ETC / 'granian' / 'blockattach-api.sh').read_text('utf-8').replace(
            'blockattach.wsgi:application', f'--factory {floor.__name__}:{floor.build.__name__}')
        # The API of the floor does not import the service.
        script = script.replace('from blockattach import wsgi\n', '').replace('wsgi.load()\n', '')
        environment = self._cloud.environment()
        environment |= {
            'PORT': str(port), 'WORKERS': str(clouds.WORKERS), 'THREADS': str(_THREADS),
            'PYTHONPATH': os.pathsep.join((str(clouds.ROOT / 'tools'),
                                           environment['PYTHONPATH'])),
            floor.CONFIGURATION: str(self._cloud.configuration), floor.MANAGER: str(manager_port)}
        with (measure.loading(floor.__name__, [], str(self._cloud.configuration),
                              str(manager_port)) as manager,
              (self._cloud.folder / f'{results.FLOOR}.out.log').open('ab') as log,
              subprocess.Popen(['sh', '-c', script], stdin=subprocess.DEVNULL, stdout=log,
                               stderr=log, env=environment, cwd=self._cloud.folder) as api):
            try:
                endpoint = client.Endpoint(f'http://127.0.0.1:{port}/v3/{_PROJECT}',
                                           kept=self._kept)
                self._await(endpoint, api)
                yield targets.Target(
                    results.FLOOR, endpoint,
                    processes.Processes({'api': api.pid, 'manager': manager.pid}),
                    self._cloud.backing, self._clock)
            finally:
                api.terminate()

    def _await(self, endpoint: client.Endpoint, api: 'subprocess.Popen[bytes]') -> None:
        never = threading.Event()
        volume = self._volumes(1)[0]
        for _ in range(_LOOKS):
            if api.poll() is not None:
                break
            with (contextlib.suppress(client.Unexpected),
                  contextlib.closing(client.Client(endpoint)) as one):
                one.ask('start', 'GET', f'/volumes/{volume}')
                return
            self._clock.wait(never, _LOOK_SECONDS)
        raise clouds.CannotMeasure(
            f'the floor does not respond: {self._cloud.last_words(results.FLOOR)}')

    def _items(self, scenario: str, count: int) -> tuple[acts.Item, ...]:
        """Return the items of the clients.

        A cycle has a volume for each client. A show has one volume with two attachments for all
        clients.
        """
        if scenario in scenarios.ON_PLAIN:
            return tuple(acts.Item(one, host=f'host-{number}')
                         for number, one in enumerate(self._volumes(count)))
        volume_id, made = self._volumes(1)[0], [str(uuid.uuid4()) for _ in range(_SHOWN)]
        with self._cloud.engine.begin() as connection:
            connection.execute(models.attachments.insert(), [{
                'id': one, 'volume_id': volume_id, 'project_id': _PROJECT, 'mode': 'rw',
                'state': 'attached', 'rank': 1, 'generation': 4,
                'created_at': self._clock.utcnow()} for one in made])
        return (acts.Item(volume_id, made[0]),) * count

    def _volumes(self, count: int) -> list[str]:
        """Insert volumes that the periodic tasks of the service ignore, and return their ids."""
        ids = [str(uuid.uuid4()) for _ in range(count)]
        with self._cloud.engine.begin() as connection:
            kind = connection.execute(
                sa.select(models.volume_types.c.id).limit(1)).scalar_one()
            connection.execute(models.volumes.insert(), [{
                'id': one, 'project_id': _PROJECT, 'user_id': _PROJECT, 'size_gb': 1,
                'own_status': 'available', 'status': 'available', 'attach_status': 'detached',
                'availability_zone': 'nova', 'volume_type_id': kind,
                'pool': 'elsewhere@floor#floor', 'created_at': self._clock.utcnow()}
                for one in ids])
        return ids
