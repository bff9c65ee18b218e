"""Volumes, and the operations on them."""
import functools

from blockattach.platform.http import operation
from blockattach.platform.http.operation import Operation
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import manageable
from blockattach.storage.api.resources.volumes import actions
from blockattach.storage.api.resources.volumes import handlers
from blockattach.storage.api.resources.volumes import images
from blockattach.storage.api.resources.volumes import lists
from blockattach.storage.api.resources.volumes import managing
from blockattach.storage.api.resources.volumes import placing
from blockattach.storage.api.resources.volumes import pool_actions
from blockattach.storage.api.resources.volumes import settings
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.policy import access
from blockattach.storage.policy import managing as manage_policies
from blockattach.storage.policy import services as service_policies
from blockattach.storage.policy import volumes as policies


def _hidden(call: operation.Call) -> errors.BlockattachError:
    # Cinder reports a volume that the caller may not see as missing, and not as forbidden.
    return errors.VolumeNotFound(volume_id=call.path['id'])


# Operations on a volume that the caller can see.
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
              summary='List volumes with details.'),
    Operation('GET', '/volumes/summary', lists.summary, since=operation.V(3, 12),
              policy=policies.GET_ALL, answer=views.SUMMARY,
              summary='Get volumes summary. The response has the number of volumes and their '
                      'total size in GiB.'),
    _of('GET', '/volumes/{id}', handlers.show, policy=policies.GET, refusal=_hidden,
        facts=views.facts, answer=views.SHOWN, extended=views.EXTENDED,
        summary='Show volume details.'),
    Operation('GET', '/scheduler-stats/explain_pools', placing.explain, extension=placing.SINCE,
              policy=service_policies.EXPLAIN_POOLS, parameters=placing.WANTED,
              answer={operation.BASE: placing.EXPLAINED},
              faults=(errors.VolumeTypeNotFound, errors.ServiceUnreachable),
              summary='Explain pool selection. The response lists the pools that can hold a '
                      'volume, and the reasons why other pools cannot.'),
    Operation('POST', '/volumes', handlers.create, policy=policies.CREATE, status=202,
              body=views.CREATE, answer=views.CREATED, extended=views.EXTENDED,
              faults=(*answers.REPEATED, errors.VolumeTypeNotFound, errors.VolumeTypeChanged,
                      errors.VolumeNotFound, errors.SnapshotNotFound, errors.QuotaExceeded,
                      errors.GlanceUnavailable),
              summary='Create a volume.'),
    _of('PUT', '/volumes/{id}', settings.update, policy=policies.UPDATE, body=settings.UPDATE,
        answer=views.CREATED, extended=views.EXTENDED,
        summary='Update the name, description or metadata of a volume.'),
    _of('DELETE', '/volumes/{id}', handlers.delete, policy=policies.DELETE, status=202,
        answer={operation.BASE: answers.EMPTY}, summary='Delete a volume.'),
    *settings.METADATA.operations(),
    _of('GET', '/volumes/{id}/encryption', handlers.encryption,
        policy=policies.ENCRYPTION_METADATA, answer=views.ENCRYPTION,
        summary='Show the encryption metadata of a volume.'),
    _of('GET', '/volumes/{id}/encryption/{key}', handlers.encryption_key,
        policy=policies.ENCRYPTION_METADATA, answer=views.ENCRYPTION_FACT,
        summary='Show an encryption metadata item of a volume.'),
    _action('os-reserve', actions.reserve, {}, policy=policies.RESERVE,
            faults=(errors.QuotaExceeded,),
            summary='Reserve a volume for a consumer that a later request names.'),
    _action('os-unreserve', actions.unreserve, {}, policy=policies.UNRESERVE,
            summary='Unreserve a volume.'),
    _action('os-begin_detaching', actions.begin_detaching, {}, policy=policies.BEGIN_DETACHING,
            summary='Begin detaching a volume. An attachment is marked for detaching.'),
    _action('os-roll_detaching', actions.roll_detaching, {}, policy=policies.ROLL_DETACHING,
            summary='Roll back detaching a volume. The request reverts os-begin_detaching.'),
    _action('os-initialize_connection', actions.initialize_connection,
            views.INITIALIZE_CONNECTION, policy=policies.INITIALIZE_CONNECTION, status=200,
            answer=views.CONNECTION, faults=answers.ATTACHING,
            summary='Initialize a volume connection. The request connects the host and returns '
                    'the connection information.'),
    _action('os-terminate_connection', actions.terminate_connection,
            views.TERMINATE_CONNECTION, policy=policies.TERMINATE_CONNECTION,
            faults=answers.DETACHING,
            summary='Terminate a volume connection. A connection that several servers share '
                    'remains until os-detach names the attachment that ends.'),
    _action('os-attach', actions.attach, views.ATTACH, policy=policies.ATTACH,
            faults=answers.ATTACHING,
            summary='Attach a volume to a server or a host. The request records the consumer of '
                    'the volume.'),
    _action('os-detach', actions.detach, views.DETACH, policy=policies.DETACH,
            faults=answers.DETACHING,
            summary='Detach a volume. The attachment_id is required if the volume has several '
                    'attachments.'),
    _action('os-force_detach', actions.force_detach, views.FORCE_DETACH,
            policy=policies.FORCE_DETACH, faults=answers.DETACHING,
            summary='Force detach a volume. One attachment is deleted regardless of its state. '
                    'Other attachments do not change.'),
    _action('os-reset_status', actions.reset_status, views.RESET_STATUS,
            policy=policies.RESET_STATUS, faults=(*answers.ATTACHING, errors.VolumeAtWork),
            summary='Reset the statuses of a volume. To avoid orphaned resources, requests are '
                    'rejected while the volume is being created or deleted, and if live '
                    'attachments contradict the new statuses.'),
    _action('os-force_delete', actions.force_delete, {}, policy=policies.FORCE_DELETE_ACTION,
            summary='Force delete a volume. The status of the volume is ignored, but requests '
                    'are rejected if the volume has live attachments.'),
    _action('os-set_bootable', settings.set_bootable, settings.SET_BOOTABLE, status=200,
            policy=policies.UPDATE, summary='Update the bootable status of a volume.'),
    _action('os-show_image_metadata', settings.show_image_metadata, {}, status=200,
            policy=policies.GET_METADATA, answer=settings.IMAGE_METADATA,
            summary='Show the image metadata of a volume.'),
    _action('os-set_image_metadata', settings.set_image_metadata, settings.SET_IMAGE_METADATA,
            status=200, policy=policies.SET_IMAGE_METADATA, answer=settings.IMAGE_METADATA,
            summary='Set image metadata of a volume.'),
    _action('os-unset_image_metadata', settings.unset_image_metadata,
            settings.UNSET_IMAGE_METADATA, status=200, policy=policies.REMOVE_IMAGE_METADATA,
            summary='Remove image metadata from a volume.'),
    _action('os-update_readonly_flag', actions.update_readonly_flag, views.UPDATE_READONLY_FLAG,
            policy=policies.UPDATE_READONLY_FLAG,
            summary='Update the read-only flag of a volume. The flag applies to attachments that '
                    'are created afterwards.'),
    _action('os-extend', pool_actions.extend, pool_actions.EXTEND, policy=policies.EXTEND,
            summary='Extend a volume. Volumes in use can be extended since 3.42.'),
    _action('os-extend_volume_completion', pool_actions.complete_extend,
            pool_actions.EXTEND_COMPLETION, policy=policies.EXTEND_COMPLETION,
            summary='Complete extending a volume. Requests are always rejected, because extend '
                    'operations never wait for the consumer.'),
    _action('os-retype', pool_actions.retype, pool_actions.RETYPE, policy=policies.RETYPE,
            faults=(errors.VolumeTypeNotFound, errors.VolumeTypeNameNotFound,
                    errors.VolumeTypeChanged, errors.QuotaExceeded),
            summary='Retype a volume. With the migration_policy on-demand, the volume is migrated '
                    'to another backend if the current backend cannot serve the new type.'),
    _of('POST', '/volumes/{id}/action', pool_actions.migrate, action='os-migrate_volume',
        policy=policies.MIGRATE, status=202, body=pool_actions.MIGRATE,
        answer={operation.BASE: answers.EMPTY},
        summary='Migrate a volume to another backend of the same host.'),
    _action('os-migrate_volume_completion', pool_actions.complete_migration,
            pool_actions.MIGRATION_COMPLETION, policy=policies.MIGRATE_COMPLETION,
            summary='Complete the migration of a volume. Requests are always rejected, because '
                    'migrations never wait for the consumer.'),
    _of('POST', '/volumes/{id}/action', images.upload, action='os-volume_upload_image',
        policy=policies.UPLOAD_IMAGE, status=202, body=images.UPLOAD, answer=images.UPLOADED,
        faults=(errors.GlanceUnavailable,), summary='Upload a volume to an image.'),
    _action('os-reimage', images.reimage, images.REIMAGE, since=operation.V(3, 68),
            policy=policies.REIMAGE,
            faults=(errors.ImageNotFound, errors.Conflict, errors.GlanceUnavailable),
            summary='Reimage a volume. The data of the volume is replaced with another image.'),
    _action('os-unmanage', managing.unmanage, {}, policy=manage_policies.UNMANAGE_VOLUME,
            summary='Unmanage a volume. The backend keeps the data.'),
    *_MANAGEABLE.operations(),
)
