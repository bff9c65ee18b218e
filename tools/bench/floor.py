"""The floor: the transactions and the bus round trips of an attachment, with nothing around them.

No HTTP, policy, authentication, objects, logs or driver. The same servers, the same kind of
queues, the same database driver, pool and durability as the service that a configuration file
describes. Two programs: a manager, and clients that are loaded like an API::

    python -m bench.floor manager CONFIGURATION
    python -m bench.floor clients CONFIGURATION     a job on standard input, as `bench.load`

What a verb costs at least is the table `STEPS`.
"""
import collections
import concurrent.futures
import json
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg

from bench import acts
from blockattach import clock as clocks
from blockattach.conf import database as database_conf
from blockattach.conf import options
from blockattach.conf import rpc as rpc_conf
from blockattach.db import models
from blockattach.rpc import transport as transports

TOPIC, SERVER = 'floor', 'floor'
_TIMEOUT = 60
_THREADS = 64
_CONNECTION = json.dumps({'driver_volume_type': 'iscsi', 'data': {
    'target_portal': '192.0.2.1:3260', 'target_lun': 1, 'target_discovered': False,
    'target_iqn': 'iqn.2010-10.org.openstack:volume-00000000-0000-4000-a000-000000000000'}})
_volumes = models.volumes
_rows = models.attachments


def _update_row(**values: Any) -> sa.Update:
    return sa.update(_rows).where(_rows.c.id == sa.bindparam('row')).values(**values)


def _update_volume(**values: Any) -> sa.Update:
    return sa.update(_volumes).where(_volumes.c.id == sa.bindparam('volume')).values(**values)


_TAKE = sa.update(_volumes).where(
    _volumes.c.id == sa.bindparam('volume'), _volumes.c.status == 'available').values(
    status='attaching', attach_status='attaching', lowest_rank=2)
_INSERT = sa.insert(_rows)
# Statements of each step; those of one tuple are one transaction.
_CONNECT = (_update_row(state='connecting', generation=2, connector='{}', owner='floor'),
            _update_volume(status='attaching'))
_CONNECTED = (_update_row(state='connected', generation=3, connection=_CONNECTION, owner=None),
              _update_volume(status='attaching', attach_status='attaching', lowest_rank=3))
_COMPLETE = (_update_row(state='attached', generation=4, rank=1),
             _update_volume(status='in-use', attach_status='attached', lowest_rank=1))
_DISCONNECT = (_update_row(state='disconnecting', generation=5, owner='floor'),
               _update_volume(status='detaching', attach_status='detaching', lowest_rank=3))
_GONE = (_update_row(state='gone', generation=6, rank=None, slot=None, deleted=True, owner=None),
         _update_volume(status='available', attach_status='detached', lowest_rank=None))
_SHOW = (sa.select(_volumes).where(_volumes.c.id == sa.bindparam('volume')),
         sa.select(_rows).where(_rows.c.volume_id == sa.bindparam('volume'),
                                _rows.c.deleted == sa.false()))
# What the manager does when it is called.
_MANAGED = {'connect': _CONNECTED, 'disconnect': _GONE}
# In order: a transaction here, or a call of the manager.
STEPS: dict[str, tuple[Any, ...]] = {
    'attach-cycle': ('reserve', 'connect', _COMPLETE, _DISCONNECT, 'disconnect'),
    'reserve-cycle': ('reserve', _CONNECT, 'connect', _COMPLETE, _DISCONNECT, 'disconnect'),
    'show-volume': (_SHOW,),
}
"""Scenario to what it cannot do without."""


class Ground:
    """Connections of one process to the database and the bus, as the service has them."""

    def __init__(self, configuration: str) -> None:
        conf = cfg.ConfigOpts()
        options.register(conf)
        transports.register_options(conf)
        conf(['--config-file', configuration], project='blockattach')
        settings = database_conf.settings(conf)
        # Not the service's own engine: that looks at each connection before it uses it.
        self.engine = sa.create_engine(
            sa.make_url(settings.connection).update_query_dict({'charset': 'utf8mb4'}),
            pool_size=settings.max_pool_size, max_overflow=0, pool_timeout=_TIMEOUT,
            pool_reset_on_return=None)
        self.transport = transports.build_transport(conf)
        prefix = rpc_conf.settings(conf).topic_prefix
        self.target = oslo_messaging.Target(topic=f'{prefix}-{TOPIC}', server=SERVER)

    def run(self, statements: tuple[sa.Executable, ...], volume: str, row: str) -> None:
        """One transaction."""
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(statement, {'volume': volume, 'row': row})


class Manager:
    """What answers on the bus."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def act(self, ctxt: dict[str, Any], step: str, volume: str, row: str) -> None:
        """The manager's transaction of a step."""
        self._ground.run(_MANAGED[step], volume, row)


class Clients:
    """Threads that repeat the steps of a scenario: a load of `bench.load`."""

    def __init__(self, ground: Ground, job: acts.Job, clock: clocks.Clock) -> None:
        self._ground = ground
        self._job = job
        self._clock = clock
        self._calls = oslo_messaging.get_rpc_client(ground.transport, ground.target,
                                                    timeout=_TIMEOUT)
        self._volumes = [item.volume_id for item in job.items]
        self._lock = threading.Lock()
        self.milliseconds: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.steps: dict[str, list[float]] = {}
        self.facts: dict[str, Any] = {}

    def prepare(self) -> None:
        """Warm up: what is done now is not counted."""
        self._run(self._job.warmup)
        self.milliseconds.clear()

    def run(self) -> float:
        """Until the last operation that was begun in time has ended; the seconds."""
        return self._run(self._job.seconds)

    def _run(self, seconds: float) -> float:
        begin = self._clock.monotonic()
        threads = [threading.Thread(target=self._repeat, args=(volume, begin + seconds))
                   for volume in self._volumes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._clock.monotonic() - begin

    def _repeat(self, volume: str, end: float) -> None:
        taken = []
        errors: collections.Counter[str] = collections.Counter()
        while (begin := self._clock.monotonic()) < end:
            row = str(uuid.uuid4())
            try:
                for step in STEPS[self._job.scenario]:
                    self._do(step, volume, row)
            except (sa.exc.SQLAlchemyError, oslo_messaging.MessagingException) as exc:
                errors[str(exc).splitlines()[0]] += 1
                # The volume is as it was left: nothing more can be done with it.
                break
            taken.append((self._clock.monotonic() - begin) * 1000)
        with self._lock:
            self.milliseconds += taken
            self.errors += errors

    def _do(self, step: Any, volume: str, row: str) -> None:
        if step == 'reserve':
            with self._ground.engine.begin() as connection:
                if connection.execute(_TAKE, {'volume': volume}).rowcount != 1:
                    raise sa.exc.NoResultFound('the volume is not as it was left')
                connection.execute(_INSERT, {
                    'id': row, 'volume_id': volume, 'project_id': 'floor', 'generation': 1,
                    'instance_uuid': row, 'state': 'connecting', 'rank': 2, 'slot': 0,
                    'legacy_reservation': False, 'connector': _CONNECTION, 'mode': 'rw',
                    'deleted': False, 'created_at': self._clock.utcnow()})
        elif isinstance(step, str):
            self._calls.call({}, 'act', step=step, volume=volume, row=row)
        else:
            self._ground.run(step, volume, row)


def manage(ground: Ground) -> None:
    """Serve until standard input ends; each line of it gives the connections back."""
    server = oslo_messaging.get_rpc_server(ground.transport, ground.target, [Manager(ground)])
    # As the service: its threads wait where they are idle.
    server._executor_cls = concurrent.futures.ThreadPoolExecutor
    server.start(override_pool_size=_THREADS)
    print('ready', flush=True)
    for _ in sys.stdin:
        ground.engine.dispose()
    server.stop()


def clients(ground: Ground) -> None:
    """Do one job."""
    from bench import load
    job = acts.Job.read(json.loads(sys.stdin.readline()))
    load.serve(Clients(ground, job, clocks.Clock()))


PROGRAMS: dict[str, Callable[[Ground], None]] = {'manager': manage, 'clients': clients}

if __name__ == '__main__':
    PROGRAMS[sys.argv[1]](Ground(sys.argv[2]))
