"""Operations on volumes: create, clone, extend, migrate, delete, and snapshots.

Each operation sends a request, and polls until it is complete (`acts.Job.poll`).
"""
from bench import acts
from bench import client

_COPY_SECONDS = 600.0


def create(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Create an empty volume."""
    acts.wait_available(timed, acts.create_volume(timed, job.volume_type), job.poll)


def clone(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Clone a volume."""
    _cloned(timed, item, job)


def clone_and_delete(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Clone a volume, and delete the clone."""
    made = _cloned(timed, item, job)
    timed.ask('delete volume', 'DELETE', f'/volumes/{made}')
    acts.wait_gone(timed, made, job.poll)


def _cloned(timed: acts.Timed, item: acts.Item, job: acts.Job) -> str:
    made = str(timed.json('create volume', 'POST', '/volumes', {'volume': {
        'source_volid': item.volume_id, 'name': 'bench'}})['volume']['id'])
    acts.wait_available(timed, made, job.poll, _COPY_SECONDS)
    return made


def extend(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Extend a volume from 1 GiB to 2 GiB."""
    timed.ask('extend', 'POST', f'/volumes/{item.volume_id}/action',
              {'os-extend': {'new_size': 2}})
    acts.wait_available(timed, item.volume_id, job.poll, meanwhile=('extending',))


def delete(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Delete a volume."""
    timed.ask('delete volume', 'DELETE', f'/volumes/{item.volume_id}')
    acts.wait_gone(timed, item.volume_id, job.poll)


def create_snapshot(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Create a snapshot of a volume."""
    made = timed.json('create snapshot', 'POST', '/snapshots', {'snapshot': {
        'volume_id': item.volume_id, 'name': 'bench'}})['snapshot']['id']
    acts.wait_available(timed, made, job.poll, noun='snapshot')


def delete_snapshot(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Delete a snapshot."""
    timed.ask('delete snapshot', 'DELETE', f'/snapshots/{item.snapshot_id}')
    acts.wait_gone(timed, item.snapshot_id, job.poll, noun='snapshot')


def migrate(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Migrate a volume to the other one of the two pools."""
    path = f'/volumes/{item.volume_id}'
    here = timed.json('look', 'GET', path)['volume']['os-vol-host-attr:host']
    there = next(pool for pool in job.pools if pool != here)
    timed.ask('migrate', 'POST', f'{path}/action', {'os-migrate_volume': {'host': there}})
    deadline = timed.clock.monotonic() + _COPY_SECONDS
    while (found := timed.json('look', 'GET', path)['volume'])['os-vol-host-attr:host'] != there:
        if found['migration_status'] == 'error' or timed.clock.monotonic() > deadline:
            raise client.Unexpected('migrate', 0, 'the volume was not migrated')
        timed.pause(job.poll)


REPEATED: dict[str, acts.Act] = {
    'create': create,
    'clone': clone,
    'clone-and-delete': clone_and_delete,
    'extend': extend,
    'delete': delete,
    'create-snapshot': create_snapshot,
    'delete-snapshot': delete_snapshot,
    'migrate': migrate,
}
"""Operations on volumes by the name of the scenario in a job."""
