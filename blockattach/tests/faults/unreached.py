"""Failpoints that no operation of this layer passes, each with the reason."""
import fnmatch

_NO_ROAD = 'no operation of the API leads there yet; the conformance kits do'
_OTHER_STORE = 'the store of this layer is the file store on tgt: '
REASONS = {
    'backend.store.clone*': _NO_ROAD,
    'backend.store.create_snapshot.*': _NO_ROAD,
    'backend.store.delete_snapshot.*': _NO_ROAD,
    'backend.store.extend.*': _NO_ROAD,
    'backend.store.revert.*': _NO_ROAD,
    'backend.target.export.*': 'the service lets in by grant, which exports; the kits call it',
    'backend.store.allocated_bytes.*': 'only the kits ask',
    'backend.store.wipe.*': _OTHER_STORE + 'tests/functional/test_volume_service.py',
    'backend.target.block_sizes.*': _OTHER_STORE + 'tests/unit/volume/test_backends.py',
    'backend.target.reservations.*': _OTHER_STORE + 'tests/conformance/test_lio.py',
    'backend.target.unmaps.*': _OTHER_STORE + 'tests/unit/volume/test_backends.py',
    'drivers.lvm.*': _OTHER_STORE + 'tests/conformance/test_lvm.py',
    'privileged.lio.*': _OTHER_STORE + 'tests/conformance/test_lio.py',
    'rpc.volume.host_reservation.*': _OTHER_STORE + 'tests/api/test_reservations.py',
    'db.leases.*': 'only the members of a cluster take turns: tests/functional/'
                   'test_cluster_turns.py, tests/system/test_clusters.py',
    'db.messages.withdraw.*': 'passed where a volume that was said to fit nowhere is placed after '
                              'all: tests/db/test_placement.py',
    'db.waits.*': 'nothing waits in vain here, where no time-out is set: tests/db/test_waits.py, '
                  'tests/system/test_abandoned.py',
    'db.sealed_grants.renew.*': 'secrets check --forget: tests/db/test_key_rotation.py',
    'rpc.volume.connect.*': 'spoken while processes of the release before are at work',
    'rpc.volume.disconnect.*': 'spoken while processes of the release before are at work',
    'rpc.volume.ping.*': 'asked by nobody but probes of a release to come',
}
"""By pattern."""


def wrong(known, passed):
    """What is said neither by a walk nor here, and what is said here without need.

    :param known: the names of all failpoints
    :param passed: places
    """
    names = {place.rpartition('/')[2] for place in passed}
    for name in set(known) - names:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in REASONS):
            yield f'{name} is not passed, and nobody says why'
    for pattern in REASONS:
        if all(name in names for name in known if fnmatch.fnmatch(name, pattern)):
            yield f'{pattern} is passed, or there is none: it needs no reason'
