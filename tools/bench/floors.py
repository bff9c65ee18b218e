"""Measures the floor (`bench.floor`) on the servers of a cloud, beside its rows and queues."""
import contextlib
import json
import subprocess
import uuid
from collections.abc import Iterator

import sqlalchemy as sa

from bench import acts
from bench import client
from bench import cloud as clouds
from bench import floor
from bench import measure
from bench import processes
from bench import scenarios
from blockattach import clock as clocks
from blockattach.db import models

NAME = 'floor'
SCENARIOS = tuple(floor.STEPS)
_PROJECT = 'floor'
_NOBODY = client.Endpoint('http://127.0.0.1/v3/floor')
_SHOWN = 2


class Floor:
    """The floor of one cloud: its manager runs from the beginning of `running` to its end."""

    def __init__(self, cloud: clouds.Cloud, manager: 'subprocess.Popen[str]',
                 clock: clocks.Clock) -> None:
        self._cloud = cloud
        self._manager = manager
        self._clock = clock

    def measure(self, scenario: str, load: scenarios.Load) -> measure.Row:
        """One row, like those of a target."""
        job = acts.Job(scenario, _NOBODY, tuple(
            acts.Item(volume_id) for volume_id in self._volumes(scenario, load.clients)),
            load.seconds, load.warmup)
        with measure.loading('bench.floor', [json.dumps(job.plain())], 'clients',
                             str(self._cloud.configuration)) as running:
            own = processes.Processes({'clients': running.pid, 'manager': self._manager.pid})
            backing = clouds.backing()
            row = measure.counted(running, load.seconds, own, backing, self._clock,
                                  contextlib.nullcontext())
        # Others need the connections that a database has.
        measure.send(self._manager, '')
        # Its clients are the service here.
        return {'target': NAME, 'scenario': scenario, 'clients': load.clients, **row,
                'load_cpu_ms': None}

    def _volumes(self, scenario: str, count: int) -> list[str]:
        """Fresh rows that the service's own periodic work does not look at."""
        now = self._clock.utcnow()
        with self._cloud.engine.begin() as connection:
            kind = connection.execute(
                sa.select(models.volume_types.c.id).limit(1)).scalar_one()
            made = [{
                'id': str(uuid.uuid4()), 'project_id': _PROJECT, 'user_id': _PROJECT,
                'size_gb': 1, 'own_status': 'available', 'status': 'available',
                'attach_status': 'detached', 'availability_zone': 'nova', 'volume_type_id': kind,
                'pool': 'elsewhere@floor#floor', 'created_at': now} for _ in range(count)]
            connection.execute(models.volumes.insert(), made)
            if scenario == 'show-volume':
                connection.execute(models.attachments.insert(), [{
                    'id': str(uuid.uuid4()), 'volume_id': one['id'], 'project_id': _PROJECT,
                    'state': 'attached', 'rank': 1, 'generation': 4, 'mode': 'rw',
                    'created_at': now} for one in made for _ in range(_SHOWN)])
        return [str(one['id']) for one in made]


@contextlib.contextmanager
def running(cloud: clouds.Cloud, clock: clocks.Clock) -> Iterator[Floor]:
    """The floor of a cloud, until the context is left.

    :raises CannotMeasure: it does not start
    """
    cloud.also_serves(floor.TOPIC, floor.SERVER)
    with measure.loading('bench.floor', [], 'manager', str(cloud.configuration)) as manager:
        try:
            yield Floor(cloud, manager, clock)
        finally:
            assert manager.stdin is not None
            manager.stdin.close()
            manager.wait()
            with cloud.engine.begin() as connection:
                mine = sa.select(models.volumes.c.id).where(
                    models.volumes.c.project_id == _PROJECT)
                connection.execute(models.attachments.delete().where(
                    models.attachments.c.volume_id.in_(mine)))
                connection.execute(models.volumes.delete().where(
                    models.volumes.c.project_id == _PROJECT))
