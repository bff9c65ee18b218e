"""Volumes: what bytes are kept on; what can be done with them."""
import functools

from blockattach import errors
from blockattach.api import answers
from blockattach.api import manageable
from blockattach.api.resources.volumes import actions
from blockattach.api.resources.volumes import extending
from blockattach.api.resources.volumes import handlers
from blockattach.api.resources.volumes import images
from blockattach.api.resources.volumes import lists
from blockattach.api.resources.volumes import managing
from blockattach.api.resources.volumes import moving
from blockattach.api.resources.volumes import placing
from blockattach.api.resources.volumes import settings
from blockattach.api.resources.volumes import views
from blockattach.http import operation
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import managing as manage_policies
from blockattach.policy import services as service_policies
from blockattach.policy import volumes as policies


def _hidden(call: operation.Call) -> errors.BlockattachError:
    return errors.VolumeNotFound(volume_id=call.path['id'])


# Of a volume that the caller may see.
_of = functools.partial(Operation, target=access.volume)
_action = functools.partial(operation.action, '/volumes/{id}/action', target=access.volume)

_MANAGEABLE = manageable.Noun(
    'volume', managing.manage, managing.MANAGE, views.CREATED, views.EXTENDED,
    list_rule=manage_policies.LIST_VOLUMES, manage_rule=manage_policies.MANAGE_VOLUME)

OPERATIONS = (
    Operation('GET', '/volumes', lists.index, policy=policies.GET_ALL,
              answer=views.NAMES, faults=(errors.VolumeNotFound,),
              summary='List volumes.'),
    Operation('GET', '/volumes/detail', lists.detail, policy=policies.GET_ALL,
              answer=views.DETAILS, extended=views.EXTENDED_LIST,
              faults=(errors.VolumeNotFound,),
              summary='List volumes with all that is known of them.'),
    Operation('GET', '/volumes/summary', lists.summary, since=operation.V(3, 12),
              policy=policies.GET_ALL, answer=views.SUMMARY,
              summary='Count volumes, and the GiB they have.'),
    _of('GET', '/volumes/{id}', handlers.show, policy=policies.GET, refusal=_hidden,
        facts=views.facts, answer=views.SHOWN, extended=views.EXTENDED, summary='Show a volume.'),
    Operation('GET', '/scheduler-stats/explain_pools', placing.explain, extension=placing.SINCE,
              policy=service_policies.EXPLAIN_POOLS, parameters=placing.WANTED,
              answer={operation.BASE: placing.EXPLAINED},
              faults=(errors.VolumeTypeNotFound, errors.ServiceUnreachable),
              summary='Ask which pools would take a volume, and why others would not.'),
    Operation('POST', '/volumes', handlers.create, policy=policies.CREATE, status=202,
              body=views.CREATE, answer=views.CREATED, extended=views.EXTENDED,
              faults=(*answers.REPEATED, errors.VolumeTypeNotFound, errors.VolumeTypeChanged,
                      errors.VolumeNotFound, errors.SnapshotNotFound, errors.QuotaExceeded,
                      errors.GlanceUnavailable),
              summary='Create a volume.'),
    _of('PUT', '/volumes/{id}', settings.update, policy=policies.UPDATE, body=settings.UPDATE,
        answer=views.CREATED, extended=views.EXTENDED,
        summary='Change name, description or metadata of a volume.'),
    _of('DELETE', '/volumes/{id}', handlers.delete, policy=policies.DELETE, status=202,
        answer={operation.BASE: answers.EMPTY}, summary='Delete a volume.'),
    *settings.METADATA.operations(),
    _of('GET', '/volumes/{id}/encryption', handlers.encryption,
        policy=policies.ENCRYPTION_METADATA, answer=views.ENCRYPTION,
        summary='Show how a volume is encrypted.'),
    _of('GET', '/volumes/{id}/encryption/{key}', handlers.encryption_key,
        policy=policies.ENCRYPTION_METADATA, answer=views.ENCRYPTION_FACT,
        summary='Show one fact of how a volume is encrypted.'),
    _action('os-reserve', actions.reserve, {}, policy=policies.RESERVE,
            faults=(errors.QuotaExceeded,),
            summary='Reserve a volume for a consumer that is named later.'),
    _action('os-unreserve', actions.unreserve, {}, policy=policies.UNRESERVE,
            summary='Release what os-reserve reserved.'),
    _action('os-begin_detaching', actions.begin_detaching, {}, policy=policies.BEGIN_DETACHING,
            summary='Announce that one attachment is going to be detached.'),
    _action('os-roll_detaching', actions.roll_detaching, {}, policy=policies.ROLL_DETACHING,
            summary='Take the announcement of a detach back.'),
    _action('os-initialize_connection', actions.initialize_connection,
            views.INITIALIZE_CONNECTION, policy=policies.INITIALIZE_CONNECTION, status=200,
            answer=views.CONNECTION, faults=answers.ATTACHING,
            summary='Connect a host; answers how it reaches the volume.'),
    _action('os-terminate_connection', actions.terminate_connection,
            views.TERMINATE_CONNECTION, policy=policies.TERMINATE_CONNECTION,
            faults=answers.DETACHING,
            summary='Disconnect a host. Where several servers share its connection, it stays '
                    'until os-detach names the attachment that ends.'),
    _action('os-attach', actions.attach, views.ATTACH, policy=policies.ATTACH,
            faults=answers.ATTACHING,
            summary='Name the consumer of the volume: a server, or a host.'),
    _action('os-detach', actions.detach, views.DETACH, policy=policies.DETACH,
            faults=answers.DETACHING,
            summary='End one attachment: the named one, else the only one.'),
    _action('os-force_detach', actions.force_detach, views.FORCE_DETACH,
            policy=policies.FORCE_DETACH, faults=answers.DETACHING,
            summary='End one attachment whatever its state is; touches no other.'),
    _action('os-reset_status', actions.reset_status, views.RESET_STATUS,
            policy=policies.RESET_STATUS, faults=(*answers.ATTACHING, errors.VolumeAtWork),
            summary='Say what is true of a volume. Refused where it would make an orphan: while '
                    'the volume is made or removed, or live attachments contradict it.'),
    _action('os-force_delete', actions.force_delete, {}, policy=policies.FORCE_DELETE_ACTION,
            summary='Delete a volume whatever its status, unless it has live attachments.'),
    _action('os-set_bootable', settings.set_bootable, settings.SET_BOOTABLE, status=200,
            policy=policies.UPDATE, summary='Say whether a server can boot from a volume.'),
    _action('os-show_image_metadata', settings.show_image_metadata, {}, status=200,
            policy=policies.GET_METADATA, answer=settings.IMAGE_METADATA,
            summary='Show what is known of the image of a volume.'),
    _action('os-set_image_metadata', settings.set_image_metadata, settings.SET_IMAGE_METADATA,
            status=200, policy=policies.SET_IMAGE_METADATA, answer=settings.IMAGE_METADATA,
            summary='Add to what is known of the image of a volume.'),
    _action('os-unset_image_metadata', settings.unset_image_metadata,
            settings.UNSET_IMAGE_METADATA, status=200, policy=policies.REMOVE_IMAGE_METADATA,
            summary='Remove something that is known of the image of a volume.'),
    _action('os-update_readonly_flag', actions.update_readonly_flag, views.UPDATE_READONLY_FLAG,
            policy=policies.UPDATE_READONLY_FLAG,
            summary='Let attachments made from now on read only, or not.'),
    _action('os-extend', extending.extend, extending.EXTEND, policy=policies.EXTEND,
            summary='Make a volume larger; from 3.42 on also one that is in use.'),
    _action('os-extend_volume_completion', extending.complete, extending.COMPLETION,
            policy=policies.EXTEND_COMPLETION,
            summary='Say how an extension has ended that waits for its consumer. Refused: here '
                    'none does.'),
    _action('os-retype', moving.retype, moving.RETYPE, policy=policies.RETYPE,
            faults=(errors.VolumeTypeNotFound, errors.VolumeTypeNameNotFound,
                    errors.VolumeTypeChanged, errors.QuotaExceeded),
            summary='Give a volume another type; with migration_policy on-demand on another '
                    'backend, if its own one cannot serve that type.'),
    _of('POST', '/volumes/{id}/action', moving.migrate, action='os-migrate_volume',
        policy=policies.MIGRATE, status=202, body=moving.MIGRATE,
        answer={operation.BASE: answers.EMPTY},
        summary='Move a volume to another backend of its host.'),
    _action('os-migrate_volume_completion', moving.complete, moving.COMPLETION,
            policy=policies.MIGRATE_COMPLETION,
            summary='Complete a migration that waits for the consumer of its volume. Refused: '
                    'here none does.'),
    _of('POST', '/volumes/{id}/action', images.upload, action='os-volume_upload_image',
        policy=policies.UPLOAD_IMAGE, status=202, body=images.UPLOAD, answer=images.UPLOADED,
        faults=(errors.GlanceUnavailable,), summary='Make an image of a volume.'),
    _action('os-reimage', images.reimage, images.REIMAGE, since=operation.V(3, 68),
            policy=policies.REIMAGE,
            faults=(errors.ImageNotFound, errors.Conflict, errors.GlanceUnavailable),
            summary='Give a volume the bytes of another image.'),
    _action('os-unmanage', managing.unmanage, {}, policy=manage_policies.UNMANAGE_VOLUME,
            summary='Leave a volume to its backend, which keeps its bytes.'),
    *_MANAGEABLE.operations(),
)
