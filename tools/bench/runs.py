"""Runs of the command, which are functions of the table `RUNS`."""
import contextlib
from collections.abc import Callable

from bench import builds
from bench import client
from bench import cloud as clouds
from bench import copies
from bench import crowds
from bench import databases
from bench import features
from bench import floors
from bench import identity
from bench import lasting
from bench import neighbours
from bench import pressure
from bench import processes
from bench import results
from bench import scenarios
from bench import seed
from bench import session as sessions
from bench import stores
from bench import target as targets
from blockattach.testing import stack

_LADDER = (1, 2, 4, 8, 16, 32, 64)
_CLIMBING = ('attach-cycle', 'reserve-cycle', 'show-volume', 'show-attachment')
_SHORT = ('attach-cycle', 'show-volume')
"""Scenarios by which clouds of different shapes are compared."""


def play_scenarios(session: sessions.Session) -> None:
    """Measure all scenarios on all targets, alternating in each round, and on the floor."""
    with contextlib.ExitStack() as running:
        peers = running.enter_context(session.peers())
        cloud = running.enter_context(clouds.Cloud(session.shape(), session.clock))
        target = session.target(cloud)
        _look_at_idle(session, cloud, target, peers)
        for one in peers:
            session.supply(one)
        listed = sorted({load.volumes for name in session.played if name in scenarios.LISTS
                         for load in session.plan.loads(name)})
        if listed:
            seed.fill_lists(cloud.engine, target, listed)
            for volumes in listed:
                for one in peers:
                    session.seed_peer(one, scenarios.list_project(volumes), volumes)
        session.supply(target)
        floor = floors.Floor(cloud, session.clock, session.kept)
        for number in range(session.plan.rounds):
            # Alternate the order of the targets, so that disturbances affect all of them equally.
            order = [target, *peers] if number % 2 == 0 else [*peers, target]
            for name in session.played:
                for load in session.plan.loads(name):
                    for one in order:
                        session.play(one, name, load, **{results.ROUND: number})
                    if name in floors.SCENARIOS:
                        session.keep({**floor.measure(name, load), results.ROUND: number})


def _look_at_idle(session: sessions.Session, cloud: clouds.Cloud, target: targets.Target,
                  peers: list[targets.Target]) -> None:
    """Store the memory before any load, and the time until each process was ready."""
    facts = session.results.facts
    facts['ready_seconds'] = cloud.ready_seconds
    facts['slowest_ready_seconds'] = max(cloud.ready_seconds.values())
    _greet(target)
    facts['idle_pss_mib'] = target.own.pss_mib()
    own = sum(facts['idle_pss_mib'].values())
    for peer in peers:
        _greet(peer)
        if peer.own.names:
            facts['peer_idle_pss_mib'] = peer.own.pss_mib()
            facts['idle_pss_ratio'] = round(own / peer.own.total_pss_mib(), 3)


def _greet(target: targets.Target) -> None:
    """Send requests until each worker of the API has built its application."""
    for _ in range(50):
        with contextlib.closing(client.Client(target.endpoint)) as one:
            one.ask('greet', 'GET', '/volumes?limit=1')


def measure_memory(session: sessions.Session) -> None:
    """Measure the idle memory of processes, and the time until they are ready."""
    if 'idle_pss_mib' not in session.results.facts:
        with contextlib.ExitStack() as running:
            peers = running.enter_context(session.peers())
            cloud = running.enter_context(clouds.Cloud(session.shape(), session.clock))
            target = session.target(cloud)
            _look_at_idle(session, cloud, target, peers)
    begin = session.clock.monotonic()
    with stack.Stack('fake') as own:
        session.results.facts['all_in_one_ready_seconds'] = round(
            session.clock.monotonic() - begin, 2)
        one = targets.Target(
            'blockattach-all', client.Endpoint(f'{own.endpoint}/{clouds.PROJECT}'),
            processes.Processes({'all': own.pid}), processes.Processes({}), session.clock)
        one.prepare()
        session.results.facts['all_in_one_pss_mib'] = one.own.total_pss_mib()


def compare_servers(session: sessions.Session) -> None:
    """Measure the API under each WSGI server, with and without persistent connections."""
    for server in clouds.SERVERS:
        with clouds.Cloud(session.shape(server=server), session.clock) as cloud:
            for kept in (False, True):
                target = session.target(
                    cloud, f'{server}{" kept" if kept else ""}', kept=kept)
                _play_short(session, target)


def compare_authentication(session: sessions.Session) -> None:
    """Compare the service with Keystone tokens and the service without authentication."""
    with identity.running() as account:
        for name, known in (('noauth', None), ('keystone', account)):
            with clouds.Cloud(session.shape(identity=known), session.clock) as cloud:
                _play_short(session, session.target(cloud, name))


def climb(session: sessions.Session) -> None:
    """Measure with an increasing number of clients."""
    with clouds.Cloud(session.shape(), session.clock) as cloud:
        target = session.target(cloud)
        for name in _CLIMBING:
            for clients in _LADDER:
                session.play(target, name, scenarios.Load(
                    clients, session.plan.seconds, session.plan.warmup))


def _play_short(session: sessions.Session, target: targets.Target) -> None:
    for _ in range(session.plan.rounds):
        for name in _SHORT:
            for load in session.plan.loads(name):
                session.play(target, name, load)


RUNS: dict[str, Callable[[sessions.Session], None]] = {
    'scenarios': play_scenarios,
    'memory': measure_memory,
    'concurrency': climb,
    'servers': compare_servers,
    'authentication': compare_authentication,
    'features': features.compare_features,
    'crowd': crowds.measure_crowd,
    'size': crowds.measure_size,
    'overload': pressure.measure_overload,
    'slow': neighbours.measure_slow_backend,
    'rush': neighbours.measure_rush,
    'copies': copies.measure_copies,
    'store': stores.measure_store,
    'builds': builds.measure_builds,
    'lasting': lasting.measure_lasting,
    'databases': databases.compare_databases,
}
"""Runs by their names on the command line."""
DEFAULT = ('scenarios', 'memory')
