"""Snapshots of volumes, and the operations on them."""
import functools

from blockattach.platform.http import operation
from blockattach.platform.http.operation import Operation
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import manageable
from blockattach.storage.api import metadata
from blockattach.storage.api.resources.snapshots import handlers
from blockattach.storage.api.resources.snapshots import managing
from blockattach.storage.api.resources.snapshots import views
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.policy import access
from blockattach.storage.policy import snapshots as policies

_ONE = '/snapshots/{id}'
# Operations on a snapshot that the caller can see.
_of = functools.partial(Operation, target=handlers.target)
_action = functools.partial(operation.action, f'{_ONE}/action', target=handlers.target)

_MANAGEABLE = manageable.Noun(
    'snapshot', managing.manage, managing.MANAGE, views.MADE,
    list_rule=managing.policies.LIST_SNAPSHOTS, manage_rule=managing.policies.MANAGE_SNAPSHOT)

OPERATIONS = (
    Operation('GET', '/snapshots', handlers.index, policy=policies.GET_ALL, answer=views.NAMES,
              faults=(errors.SnapshotNotFound,), summary='List snapshots.'),
    Operation('GET', '/snapshots/detail', handlers.detail, policy=policies.GET_ALL,
              answer=views.DETAILS, faults=(errors.SnapshotNotFound,),
              summary='List snapshots with details.'),
    _of('GET', _ONE, handlers.show, policy=policies.GET, answer=views.SHOWN,
        summary='Show snapshot details.'),
    Operation('POST', '/snapshots', handlers.create, policy=policies.CREATE, status=202,
              body=views.CREATE, answer=views.MADE,
              faults=(*answers.REPEATED, errors.VolumeNotFound),
              summary='Create a snapshot of a volume. The volume may be in use.'),
    _of('PUT', _ONE, handlers.update, policy=policies.UPDATE, body=views.UPDATE,
        answer=views.MADE, summary='Update the name or description of a snapshot.'),
    _of('DELETE', _ONE, handlers.delete, policy=policies.DELETE, status=202,
        answer={operation.BASE: answers.EMPTY}, summary='Delete a snapshot.'),
    *metadata.Noun(
        _ONE, handlers.target, snapshots.change_metadata,
        lambda snapshot_id, key: errors.SnapshotMetadataNotFound(
            snapshot_id=snapshot_id, key=key),
        get=policies.GET_METADATA, create=policies.UPDATE_METADATA,
        update=policies.UPDATE_METADATA, delete=policies.DELETE_METADATA).operations(),
    _action('os-reset_status', handlers.reset_status, views.RESET_STATUS,
            policy=policies.RESET_STATUS, faults=(errors.SnapshotAtWork,),
            summary='Reset the status of a snapshot. Requests are rejected while the snapshot is '
                    'being created or deleted.'),
    _action('os-force_delete', handlers.force_delete, {}, policy=policies.FORCE_DELETE,
            summary='Force delete a snapshot. The status of the snapshot is ignored.'),
    _action('os-update_snapshot_status', handlers.update_status, views.UPDATE_STATUS,
            policy=policies.UPDATE_STATUS, faults=(errors.SnapshotAtWork,),
            summary='Update the status and progress of a snapshot, as the consumer that creates '
                    'or deletes the snapshot.'),
    operation.action('/volumes/{id}/action', 'revert', handlers.revert, views.REVERT,
                     since=operation.V(3, 40), target=access.volume, policy=policies.REVERT,
                     faults=(errors.NotRevertible,),
                     summary='Revert a volume to its latest snapshot.'),
    _action('os-unmanage', managing.unmanage, {}, policy=managing.policies.UNMANAGE_SNAPSHOT,
            summary='Unmanage a snapshot. The backend keeps the data.'),
    *_MANAGEABLE.operations(),
)
