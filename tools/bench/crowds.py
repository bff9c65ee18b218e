"""Growth of latency with the number of attachments of a volume, and with the number of volumes."""
import contextlib
import statistics

import sqlalchemy as sa

from bench import acts
from bench import cloud as clouds
from bench import measure
from bench import results
from bench import scenarios
from bench import seed
from bench import session as sessions
from bench import target as targets

DEFAULT_POOL_MIB = 128
CROWD, SIZE = 'crowd', 'size'
_JOINING = 32
_FIRST_HOST = 10
_CYCLES = ('attach-cycle', 'reserve-cycle', 'show-volume')
_OF_SIZE = ('list-detail', 'list-attachments', 'show-volume', 'show-attachment', 'attach-cycle')


def measure_crowd(session: sessions.Session) -> None:
    """Measure operations on a volume with an increasing number of attachments."""
    counts = session.plan.crowds
    with clouds.Cloud(session.shape(), session.clock) as cloud:
        target = session.target(cloud)
        volume_id = target.crowd()
        refused = joined = 0
        for count in counts:
            row = _join(session, target, volume_id, joined, count - joined)
            refused += row['failed']
            joined = count
            _look(session, target, volume_id, count)
        # Measure the smallest and the largest number again, alternately, so that changes on the
        # machine meanwhile do not affect the ratio.
        small = target.crowd()
        refused += _join(session, target, small, 0, counts[0])['failed']
        for _ in range(session.plan.rounds):
            _look(session, target, small, counts[0])
            _look(session, target, volume_id, counts[-1])
    session.results.facts['crowd_refused'] = refused
    _grown(session, counts[0], counts[-1])


def _look(session: sessions.Session, target: targets.Target, volume_id: str, count: int) -> None:
    for scenario in _CYCLES:
        session.keep({**_alone(session, target, scenario, volume_id), 'attachments': count})


def _grown(session: sessions.Session, small: int, large: int) -> None:
    """Store the ratios of median latencies with the most and with the fewest attachments."""
    facts = session.results.facts
    facts['crowd_counts'] = [small, large]
    for name, scenario, step in (
            ('create', 'attach-cycle', 'create'), ('update', 'reserve-cycle', 'update'),
            ('complete', 'attach-cycle', 'complete'), ('delete', 'attach-cycle', 'delete'),
            ('show', 'show-volume', 'show volume')):
        taken = [[row['steps'][step]['p50_ms'] for row in session.results.rows
                  if row.get('attachments') == count and step in row['steps']
                  and row['scenario'] == f'{CROWD} {scenario}'] for count in (small, large)]
        if all(taken):
            small_ms, large_ms = map(statistics.median, taken)
            facts[f'crowd_{name}'] = round(large_ms / small_ms, 2)


def _join(session: sessions.Session, target: targets.Target, volume_id: str, first: int,
          hosts: int) -> measure.Row:
    clients = min(_JOINING, hosts)
    stage = scenarios.Stage(target, session.clock)
    return session.keep(stage.play(f'{CROWD} join', acts.Job(
        'storm', target.endpoint, (acts.Item(volume_id),) * clients,
        hosts=hosts, first=_FIRST_HOST + first, stay=True)))


def _alone(session: sessions.Session, target: targets.Target, scenario: str,
           volume_id: str) -> measure.Row:
    """Measure with a single client, so that no queueing affects the comparison."""
    plan = session.plan
    return scenarios.Stage(target, session.clock).play(f'{CROWD} {scenario}', acts.Job(
        scenario, target.endpoint, (acts.Item(volume_id, host='host-0'),), plan.seconds,
        plan.warmup))


def measure_size(session: sessions.Session) -> None:
    """Measure lists, shows and attach cycles on databases of different sizes, alternately."""
    sizes = session.plan.sizes
    with contextlib.ExitStack() as running:
        found = []
        for size in sizes:
            cloud = running.enter_context(clouds.Cloud(session.shape(), session.clock))
            target = session.target(cloud, f'{size:,}')
            begin = session.clock.monotonic()
            seed.fill(cloud.engine, target, [
                seed.Group(scenarios.list_project(size), size, 2, 1)])
            session.say(f'{size:,} volumes, {size // 2:,} attachments and as many deleted rows '
                        f'created in {session.clock.monotonic() - begin:.0f} s')
            found.append((size, target))
        for _ in range(session.plan.rounds):
            for scenario in _OF_SIZE:
                for size, target in found:
                    load = scenarios.Load(1, session.plan.seconds, session.plan.warmup, 1, size)
                    stage = scenarios.Stage(target, session.clock)
                    row = scenarios.SCENARIOS[scenario](stage, f'{SIZE} {scenario}', load)
                    if row is not None:
                        session.keep({**row, 'volumes': size})
        _compare(session, sizes[0], sizes[-1], _buffer_pool_mib(cloud))


def _buffer_pool_mib(cloud: clouds.Cloud) -> int:
    with cloud.engine.connect() as connection:
        return int(connection.execute(sa.text(
            'SELECT @@innodb_buffer_pool_size')).scalar_one()) // 2 ** 20


def _compare(session: sessions.Session, small: int, large: int, pool: int) -> None:
    """Store the ratios of latencies between the largest and the smallest database.

    :param pool: buffer pool of the server in MiB. Only a large one holds the indexes of many
        volumes
    """
    facts = session.results.facts
    facts['innodb_buffer_pool_mib'] = pool
    prefix = '' if pool == DEFAULT_POOL_MIB else 'pool_'
    facts['sizes'] = facts[f'{prefix}sizes'] = [small, large, pool]
    for name, scenarios_of in (('list', _OF_SIZE[:2]), ('show', _OF_SIZE[2:4]),
                               ('attach', _OF_SIZE[4:])):
        ratios = []
        for scenario in scenarios_of:
            taken = [session.results.median(f'{size:,}', results.Case(
                f'{SIZE} {scenario}', 1, size), results.P50) for size in (small, large)]
            if taken[0] and taken[1]:
                ratios.append(taken[1] / taken[0])
        if ratios:
            facts[f'{prefix}size_{name}'] = round(max(ratios), 2)
