"""Creation of the volumes for listings on a peer, using only its API.

The volumes are like those of `bench.seed`: each has two keys of metadata, and each tenth has two
attachments.
"""
import concurrent.futures
import contextlib
import functools

from bench import acts
from bench import client
from bench import target as targets

MOST = 1000
"""Maximum number of volumes. More would take an hour, and need a command that copies rows."""
_THREADS = 4
_PASSES = 3
_POLL = 0.1
_LIMITLESS = {'volumes': -1, 'gigabytes': -1}


def fill(peer: targets.Target, project: str, volumes: int) -> None:
    """Create the missing volumes. Failed ones are retried a few times.

    :raises Unexpected: the peer responds with an unexpected status
    """
    with contextlib.closing(peer.timed()) as timed:
        # A peer that rejects the request may have no quotas.
        timed.ask('quota', 'PUT', f'/os-quota-sets/{project}', {'quota_set': _LIMITLESS},
                  (400, 403, 404))
    for _ in range(_PASSES):
        have = peer.count(project, volumes)
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(functools.partial(_make, peer, project), range(have, volumes)))


def _make(peer: targets.Target, project: str, number: int) -> None:
    is_shared = number % 10 == 0
    with (contextlib.suppress(client.Unexpected),
          contextlib.closing(peer.timed(project)) as timed):
        made = timed.json('create volume', 'POST', '/volumes', {'volume': {
            'size': 1, 'name': f'seed-{number}',
            'volume_type': peer.shared_type if is_shared else peer.type,
            'metadata': {f'key-{nth}': f'value-{number}' for nth in range(2)}}})['volume']['id']
        acts.wait_available(timed, made, _POLL)
        for nth in range(2 * is_shared):
            acts.complete(timed, acts.attachment_id(acts.attach(timed, made, f'seed-{nth}')[1]))
