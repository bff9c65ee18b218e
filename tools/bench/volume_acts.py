"""The operations on volumes that clients ask for and wait for: made, copied, extended, removed.

Each is asked for by one request, and looked at until it is done (`acts.Job.poll`).
"""
from bench import acts
from bench import client

_COPY_SECONDS = 600.0


def create(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """An empty volume."""
    acts.wait_available(timed, acts.create_volume(timed, job.volume_type), job.poll)


def clone(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Another volume with the bytes of this one."""
    _cloned(timed, item, job)


def clone_and_delete(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """The same, which does not stay."""
    made = _cloned(timed, item, job)
    timed.ask('delete volume', 'DELETE', f'/volumes/{made}')
    acts.wait_gone(timed, made, job.poll)


def _cloned(timed: acts.Timed, item: acts.Item, job: acts.Job) -> str:
    made = str(timed.json('create volume', 'POST', '/volumes', {'volume': {
        'source_volid': item.volume_id, 'name': 'bench'}})['volume']['id'])
    acts.wait_available(timed, made, job.poll, _COPY_SECONDS)
    return made


def extend(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """A volume of 1 GiB becomes one of 2."""
    timed.ask('extend', 'POST', f'/volumes/{item.volume_id}/action',
              {'os-extend': {'new_size': 2}})
    acts.wait_available(timed, item.volume_id, job.poll, meanwhile=('extending',))


def delete(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """A volume, until it is gone."""
    timed.ask('delete volume', 'DELETE', f'/volumes/{item.volume_id}')
    acts.wait_gone(timed, item.volume_id, job.poll)


def create_snapshot(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """Of a volume."""
    made = timed.json('create snapshot', 'POST', '/snapshots', {'snapshot': {
        'volume_id': item.volume_id, 'name': 'bench'}})['snapshot']['id']
    acts.wait_available(timed, made, job.poll, noun='snapshot')


def delete_snapshot(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """A snapshot, until it is gone."""
    timed.ask('delete snapshot', 'DELETE', f'/snapshots/{item.snapshot_id}')
    acts.wait_gone(timed, item.snapshot_id, job.poll, noun='snapshot')


def migrate(timed: acts.Timed, item: acts.Item, job: acts.Job) -> None:
    """A volume, to that of the two pools where it is not."""
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
"""By what a job calls them."""
