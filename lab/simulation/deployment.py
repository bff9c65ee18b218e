"""Processes of a simulated deployment, each with its successive instances."""
import dataclasses
import functools
import tempfile
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_policy import opts as policy_options
from oslo_reports import opts as report_options

from blockattach.platform import admission
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import notifications
from blockattach.platform.rpc import transport
from blockattach.platform.telemetry import acts
from blockattach.storage.conf import quota as quota_conf
from blockattach.wiring import api
from blockattach.wiring import control
from blockattach.wiring import dependencies
from blockattach.wiring import observation
from blockattach.wiring import options
from blockattach.wiring import processes
from blockattach.wiring import scheduler
from blockattach.wiring import volume
from lab.simulation import baton as batons
from lab.simulation import bus
from lab.simulation import buses
from lab.simulation import direct
from lab.simulation import faults
from lab.simulation import glance
from lab.simulation import rows
from lab.simulation import storage
from lab.simulation import threads

BACKEND_SECONDS = 20
"""Timeout of an operation of a backend; short, so that unfinished work expires soon."""
RECONCILE_SECONDS = 5
REPORT_SECONDS = 10
DOWN_SECONDS = 30
INTERNAL_PROJECT = '0d1f6e9b7c0a4d6f8f3a4b1c2d3e4f50'
INTERNAL_USER = 'internal'
"""Owner of the volumes of the image cache. No client uses this project."""
_SETTINGS: dict[str | None, dict[str, Any]] = {
    None: {'state_path': '/nonexistent'},
    'volume': {'enabled_backends': [storage.NAME], 'reconcile_interval': RECONCILE_SECONDS,
               'create_seconds': 40, 'backend_stats_polling_interval': 60},
    'control': {'backend_seconds': BACKEND_SECONDS, 'schedule_seconds': 20,
                'delete_seconds': 40},
    'rpc': {'call_timeout': 15, 'short_call_timeout': 5,
            'repeat_interval': 2, 'silence_timeout': 6},
    'service': {'report_interval': REPORT_SECONDS, 'service_down_time': DOWN_SECONDS},
    'attachments': {'reserve_timeout': 0, 'complete_timeout': 0, 'detach_timeout': 0},
    'scheduler': {'waiting_interval': 5, 'placing_seconds': 15},
    # keystoneauth sleeps in real time between retries.
    'glance': {'endpoint_override': glance.URL, 'num_retries': 0},
    # A conversion would run a program.
    'images': {'image_conversion_disable': True,
               'cinder_internal_tenant_project_id': INTERNAL_PROJECT,
               'cinder_internal_tenant_user_id': INTERNAL_USER},
}
# One thread runs at a time, so that requests need not be limited.
_WIDE = api_conf.QueueSettings(work_places=10_000, backend_places=10_000)


Settings = tuple[tuple[str, str, Any], ...]
"""Configuration options, each a group, an option and a value."""


@functools.cache
def images_folder() -> str:
    """Return the directory for image conversion, which all simulations of this process share."""
    return tempfile.mkdtemp(prefix='blockattach-')


@functools.cache
def configuration(more: Settings = ()) -> cfg.ConfigOpts:
    """Return the configuration with the given settings.

    It is cached for all simulations of this process, since nothing changes it.
    """
    conf = cfg.ConfigOpts()
    options.register(conf)
    transport.register_options(conf)
    policy_options.set_defaults(conf)
    report_options.set_defaults(conf)
    conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
    for group, values in _SETTINGS.items():
        for name, value in values.items():
            conf.set_override(name, value, group=group)
    conf.set_override('image_conversion_dir', images_folder(), group='images')
    for group, name, value in more:
        conf.set_override(name, value, group=group)
    return conf


class Probe:
    """Probe of a broker that is always reachable."""

    needed = True
    broker = 'simulated'
    reconnects = 0

    def wrong(self) -> str | None:
        """Return None, since nothing is wrong."""
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """Environment that outlives every process."""

    baton: batons.Baton
    faults: faults.Faults
    broker: bus.Broker
    rows: rows.Rows
    storage: storage.Storage
    glance: glance.Glance
    quota: int
    """Quota of attachments."""
    settings: Settings = ()
    """Options in addition to those of every simulation."""
    way: direct.Way = direct.Way.BROKER


class Part:
    """Process of the deployment, with all its successive instances.

    :ivar serving: what the current instance serves with; None if it is down or starting
    :ivar base: the dependencies of the current or the last instance
    """

    def __init__(self, world: World, name: str, build: Callable[[dependencies.Dependencies], Any],
                 host: str, cluster: str | None = None, wrong_by: float = 0) -> None:
        """
        :param build: builds what serves from the dependencies. The result has ``start`` and
            ``stop``, unless it is a callable
        :param wrong_by: seconds by which the clock of the host is wrong
        """
        self.name = name
        self.world = world
        self.instances = 0
        self.process = batons.Process(world.baton, name)
        self.process.dead = True
        self.serving: Any = None
        self.base: dependencies.Dependencies
        self._build = build
        self._host = host
        self._cluster = cluster
        self._wrong_by = wrong_by

    def begin(self) -> None:
        """Start a new instance, unless one is running."""
        if not self.process.dead:
            return
        self.instances += 1
        self.process = batons.Process(self.world.baton, self.name)
        self.serving = None
        self.world.baton.spawn(self.process, f'{self.name} begins', self._live)

    def touch(self, kind: str) -> None:
        """Give faults a chance before the process does what others can see.

        The process may crash or stall here, or other threads may run first.
        """
        process = self.process
        task = self.world.baton.current
        # This may be a thread of an earlier instance.
        if task.process.dead:
            raise batons.Killed
        if task.process is process and self.world.faults.happens('crash'):
            self.crash()
            raise batons.Killed
        if not task.depth and self.world.faults.happens('stall'):
            self.world.baton.wait(self.world.faults.seconds(
                self.world.faults.rates.stall_seconds))
        self.world.baton.step()

    def end(self) -> None:
        """Kill the current instance as ``kill -9`` does."""
        self.process.kill()
        self.serving = None

    def crash(self) -> None:
        """Kill the current instance, and start a new one soon."""
        self.end()
        self.world.baton.at(0.5 + self.world.faults.seconds(25), self.begin)

    def _live(self) -> None:
        process = self.process
        try:
            self.base = self.assembled()
            serving = self._build(self.base)
            if hasattr(serving, 'start'):
                serving.start()
        except Exception:
            # A supervisor would restart the failed process.
            process.kill()
            self.world.baton.at(1.0, self.begin)
            return
        if self.process is process and not process.dead:
            self.serving = serving

    def assembled(self) -> dependencies.Dependencies:
        """Assemble the dependencies of the process on simulated resources."""
        conf, process = configuration(self.world.settings), self.process
        clock = threads.VirtualClock(self.world.baton, self._wrong_by)
        observed = observation.Observation(self.name, conf, clock)
        database = rows.SimulatedDatabase(
            self.world.rows, self.touch, clock=clock, telemetry=observed.telemetry,
            quota=dataclasses.replace(quota_conf.NONE, quota_attachments=self.world.quota))
        return dependencies.assemble(
            conf, self.name, database, self.bus_of(process, observed.telemetry),
            Probe(),  # type: ignore[arg-type]
            clock=clock, observed=observed,
            admission=admission.AdmissionController(_WIDE, observed.telemetry),
            threads=threads.Threads(process),
            service=dataclasses.replace(service_conf.settings(conf), host=self._host,
                                        cluster=self._cluster),
            notifier=notifications.Notifications(None, self.name),
            outgoing=self.world.glance.session(self.touch))

    def bus_of(self, process: batons.Process, telemetry: acts.Telemetry | None = None,
               ) -> buses.SimulatedBus:
        """Create the bus of a process."""
        return buses.SimulatedBus(
            process, self.world.broker, self.touch,
            rpc_conf.settings(configuration(self.world.settings)),
            threads.VirtualClock(self.world.baton, self._wrong_by), telemetry, self.world.way)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Description of a deployment.

    ``total_gb`` is the capacity of a store, and ``quota`` that of attachments. ``clustered``: two
    volume managers serve one storage. ``apart``: each of two volume managers has a storage.
    ``beside``: each volume manager has a second backend with a storage of its own. ``caches``:
    each backend has an image cache. ``control`` is the number of APIs, and of schedulers.
    ``buses`` is the number of processes that serve consumers on the bus. ``settings`` are
    additional options. ``way`` says which messages go over HTTP.
    """

    total_gb: int
    quota: int
    clustered: bool
    wrong_clocks: bool = False
    apart: bool = False
    control: int = 2
    buses: int = 0
    settings: Settings = ()
    beside: bool = False
    caches: bool = False
    way: direct.Way = direct.Way.BROKER


class Deployment:
    """All processes of a deployment.

    :ivar quota: quota of attachments
    :ivar storages: the storage of each backend, by the address of the backend
    :ivar glance: the simulated Glance
    """

    def __init__(self, world: World, wanted: Wanted) -> None:
        chance = world.baton.chance

        def wrong() -> float:
            return chance.uniform(-300, 300) if wanted.wrong_clocks else 0.0
        cluster = 'pair' if wanted.clustered else None
        self.quota = wanted.quota
        self.address = f'{cluster or "storage-1"}@{storage.NAME}'
        self.storages = {self.address: world.storage}
        self.glance = world.glance
        numbers = range(1, wanted.control + 1)
        self.apis = [Part(world, f'api-{number}', api.build_serving, f'control-{number}',
                          wrong_by=wrong()) for number in numbers]
        self.schedulers = [Part(world, f'scheduler-{number}', _build_scheduler,
                                f'control-{number}', wrong_by=wrong()) for number in numbers]
        self.volumes = [Part(world, f'volume-{number}', lambda base: None, f'storage-{number}',
                             cluster, wrong())
                        for number in ((1, 2) if wanted.clustered or wanted.apart else (1,))]
        beside: tuple[storage.Storage, ...] = ()
        if wanted.beside:
            more = storage.Storage(world.baton, world.faults, wanted.total_gb, storage.BESIDE,
                                   wanted.caches)
            self.storages[f'{cluster or "storage-1"}@{storage.BESIDE}'] = more
            beside = (more,)
        for part in self.volumes:
            kept = world.storage
            if wanted.apart and part is not self.volumes[0]:
                kept = storage.Storage(world.baton, world.faults, wanted.total_gb,
                                       caches=wanted.caches)
                self.storages[f'storage-2@{storage.NAME}'] = kept
            part._build = functools.partial(_build_volume, part, (kept, *beside))
        buses = [Part(world, f'control-{number}', control.build_control, f'control-{number}')
                 for number in range(1, wanted.buses + 1)]
        self.parts = [*self.apis, *self.schedulers, *self.volumes, *buses]

    def begin(self) -> None:
        """Start all processes that are down."""
        for part in self.parts:
            part.begin()

    def serves(self) -> bool:
        """Return True if every process serves."""
        return all(part.serving is not None for part in self.parts)


class _Together:
    """Services of one process, started in order and stopped in reverse order."""

    def __init__(self, *services: processes.Service) -> None:
        self._services = services

    def start(self) -> None:
        for service in self._services:
            service.start()

    def stop(self) -> None:
        for service in reversed(self._services):
            service.stop()


def _build_scheduler(base: dependencies.Dependencies) -> _Together:
    return _Together(scheduler.build_scheduler(base), scheduler.build_own(base))


def _build_volume(part: Part, storages: tuple[storage.Storage, ...],
                  base: dependencies.Dependencies) -> _Together:
    return _Together(*(volume.build_manager(base, kept.settings.name, kept.loaded(part.touch)
                                            ).service for kept in storages),
                     volume.build_own(base))
