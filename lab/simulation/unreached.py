"""Failpoints that no operation of the walk passes, each with the reason."""
import fnmatch
from collections.abc import Collection
from collections.abc import Iterator

from lab.simulation import nouns

_OUTSIDE = ('only the requests of a consumer are simulated; servers: '
            'tests/functional/servers/test_interruptions.py')
_IN_MEMORY = 'store and target are in memory here: '
_GENERAL = {
    'backend.store.allocated_bytes.*': 'only the conformance kits call it',
    'backend.store.wipe.*': _IN_MEMORY + 'tests/functional/test_volume_service.py',
    'backend.target.block_sizes.*': _IN_MEMORY + 'tests/unit/volume/test_backends.py',
    'backend.target.export.*': 'the service calls grant, which exports; only the conformance '
                               'kits call it',
    'backend.target.has_process.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'backend.target.reservations.*': _IN_MEMORY + 'tests/conformance/test_lio.py',
    'backend.target.running.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'backend.target.start.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'backend.target.stop.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'backend.target.unmaps.*': _IN_MEMORY + 'tests/unit/volume/test_backends.py',
    'drivers.file.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'drivers.lvm.*': _IN_MEMORY + 'tests/conformance/test_lvm.py',
    'drivers.tgt.*': _IN_MEMORY + 'lab/faults/test_kills.py',
    'privileged.lio.*': _IN_MEMORY + 'tests/conformance/test_lio.py',
    'db.*.cancelled.*': 'work cancel: tests/db/test_work.py, tests/functional/test_*_faults.py',
    'db.snapshot.manage.failed.*': 'tests/api/test_managing.py',
    'db.volume.reimage.failed.*': 'tests/functional/test_image_faults.py',
    'db.volume.retype.refused.*': 'tests/db/test_moving.py',
    'db.dry_runs.reserve.*': 'a dry run creates nothing: tests/api/test_history.py',
    'db.history._number.*': 'no client watches events here: tests/db/test_history.py',
    'db.initiator_names.*': 'an online migration of an earlier release: '
                            'tests/db/test_initiator_names.py',
    'db.key_rotation.renew.*': 'secrets check --forget: tests/db/test_key_rotation.py',
    'db.rpc_endpoints.*': 'the directory of endpoints is simulated (direct.py): '
                          'tests/db/test_rpc_endpoints.py, tests/unit/wiring/test_rpc_site.py',
    'db.waits.*': 'no waiting attachment expires here, because no timeout is set: '
                  'tests/db/test_waits.py, lab/system/test_abandoned.py',
    'db.work.hasten.*': 'only if no message can be sent: tests/db/test_work.py',
    'db.work.renew.*': 'no work lasts until a heartbeat here: tests/db/test_work.py',
    'db.importer.*': 'the import runs before the services: tests/db/test_importing.py',
    'rpc.attachments.complete_all.*': 'repeats complete for each attachment: '
                                      'tests/functional/test_consumers.py',
    'rpc.compute.*': _OUTSIDE,
    'rpc.compute-conductor.*': _OUTSIDE,
    'rpc.volume.actual_grants.*': 'explain only reads: tests/api/test_history.py',
    'rpc.volume.host_reservation.*': _IN_MEMORY + 'tests/api/test_reservations.py',
    'rpc.scheduler.judge_pools.*': 'only reads: tests/api/test_scheduler_stats.py',
    'rpc.volume.reconcile.*': 'the periodic reconciliation does the same: '
                              'tests/functional/test_one_shot.py',
    'rpc.volume.ping.*': 'called by a dry run, which only reads: tests/api/test_history.py',
}
REASONS = {**_GENERAL, **{pattern: reason for noun in nouns.NOUNS
                          for pattern, reason in noun.unreached.items()}}
"""Reasons why failpoints are not passed, by pattern, including those of the nouns."""


def has_reason(name: str) -> bool:
    """Return True if there is a reason why a failpoint is not passed."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in REASONS)


def wrong(known: Collection[str], passed: Collection[str]) -> Iterator[str]:
    """Yield the failpoints that lack a reason, and the reasons that are not needed.

    :param known: the names of all failpoints
    :param passed: the places that the walk passes
    """
    names = {place.rpartition('/')[2] for place in passed}
    for name in set(known) - names:
        if not has_reason(name):
            yield f'{name} is not passed, and no reason is given'
    for pattern in REASONS:
        if all(name in names for name in known if fnmatch.fnmatch(name, pattern)):
            yield f'{pattern} is passed or does not exist, and needs no reason'
