"""CPU time of operations on volumes in the file store, relative to the creation of a volume."""
import contextlib
import os
import pathlib
from collections.abc import Iterator

from bench import acts
from bench import client
from bench import cloud as clouds
from bench import folders
from bench import measure
from bench import results
from bench import scenarios
from bench import session as sessions
from bench import target as targets

STORE = 'store'
CREATE = 'create'
COMPARED = ('clone', 'extend', 'create-snapshot', 'delete-snapshot', 'delete')
"""Compared operations, in the order of execution. Each uses the volumes of those before."""
CLIENTS = 8
_POLL = 0.03
_DATA = os.urandom(4 * 2 ** 20)


def measure_store(session: sessions.Session) -> None:
    """Measure creation, clone, extension, snapshots and deletion of volumes in the file store."""
    facts = session.results.facts
    with folders.sharing() as folder:
        options = {**clouds.CALLS[session.calls],
                   clouds.BACKEND: {'store': 'file', 'volumes_dir': str(folder.path)}}
        with clouds.Cloud(session.shape(options=options), session.clock) as cloud:
            target = session.target(cloud)
            facts['store_shares_extents'] = folder.shares
            # The first round is a warm-up, and does not count.
            list(_round(session, target, folder.path, CLIENTS))
            for _ in range(session.plan.rounds):
                for row in _round(session, target, folder.path, session.plan.stored):
                    session.keep(row)
    for name in COMPARED:
        own, create = (session.results.median(results.OWN, results.Case(
            f'{STORE} {one}', CLIENTS), results.CPU) for one in (name, CREATE))
        if own and create:
            facts[fact(name)] = round(own / create, 2)


def fact(name: str) -> str:
    """Return the name of the fact with the ratio of an operation."""
    return f'{STORE}_{name.replace("-", "_")}'


def _round(session: sessions.Session, target: targets.Target, folder: pathlib.Path,
           count: int) -> Iterator[measure.Row]:
    """Measure each operation on a number of volumes, and leave none behind."""
    yield _play(session, target, CREATE, [acts.Item()] * count)
    made = _ids(target, 'volume')
    for volume_id in made:
        with (folder / f'volume-{volume_id}').open('r+b') as file:
            file.write(_DATA)
    volumes = [acts.Item(volume_id) for volume_id in made]
    for name in ('clone', 'extend', 'create-snapshot'):
        yield _play(session, target, name, volumes)
    yield _play(session, target, 'delete-snapshot',
                [acts.Item(snapshot_id=one) for one in _ids(target, 'snapshot')])
    yield _play(session, target, 'delete', [acts.Item(one) for one in _ids(target, 'volume')])


def _play(session: sessions.Session, target: targets.Target, name: str,
          items: list[acts.Item]) -> measure.Row:
    return scenarios.Stage(target, session.clock).play(f'{STORE} {name}', acts.Job(
        name, target.endpoint, tuple(items), volume_type=target.type, poll=_POLL,
        threads=CLIENTS))


def _ids(target: targets.Target, noun: str) -> list[str]:
    with contextlib.closing(client.Client(target.endpoint)) as one:
        return [found['id'] for found in one.json(
            'list', 'GET', f'/{noun}s?limit=1000')[f'{noun}s']]
