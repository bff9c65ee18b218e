"""Volumes: what bytes are kept on; what can be done with them."""
from blockattach import errors
from blockattach.api import answers
from blockattach.api.resources.volumes import actions
from blockattach.api.resources.volumes import handlers
from blockattach.api.resources.volumes import views
from blockattach.http import operation
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import volumes as policies


def _hidden(call: operation.Call) -> errors.BlockattachError:
    return errors.VolumeNotFound(volume_id=call.path['id'])


_ACTION = '/volumes/{id}/action'

OPERATIONS = (
    Operation('GET', '/volumes', handlers.index, policy=policies.GET_ALL,
              answer=views.NAMES, faults=(errors.VolumeNotFound,),
              summary='List volumes.'),
    Operation('GET', '/volumes/detail', handlers.detail, policy=policies.GET_ALL,
              answer=views.DETAILS, extended=views.EXTENDED_LIST,
              faults=(errors.VolumeNotFound,),
              summary='List volumes with all that is known of them.'),
    Operation('GET', '/volumes/summary', handlers.summary, since=operation.V(3, 12),
              policy=policies.GET_ALL, answer=views.SUMMARY,
              summary='Count volumes, and the GiB they have.'),
    Operation('GET', '/volumes/{id}', handlers.show, policy=policies.GET, refusal=_hidden,
              target=access.volume, answer=views.SHOWN, extended=views.EXTENDED,
              summary='Show a volume.'),
    Operation('POST', '/volumes', handlers.create, policy=policies.CREATE, status=202,
              body=views.CREATE, answer=views.CREATED, extended=views.EXTENDED,
              faults=(*answers.REPEATED, errors.VolumeTypeNotFound, errors.VolumeTypeChanged),
              summary='Create a volume.'),
    Operation('DELETE', '/volumes/{id}', handlers.delete, policy=policies.DELETE, status=202,
              target=access.volume, answer={operation.BASE: answers.EMPTY},
              summary='Delete a volume.'),
    Operation('GET', '/volumes/{id}/encryption', handlers.encryption,
              policy=policies.ENCRYPTION_METADATA, target=access.volume, answer=views.ENCRYPTION,
              summary='Show how a volume is encrypted.'),
    Operation('GET', '/volumes/{id}/encryption/{key}', handlers.encryption_key,
              policy=policies.ENCRYPTION_METADATA, target=access.volume,
              answer=views.ENCRYPTION_FACT,
              summary='Show one fact of how a volume is encrypted.'),
    operation.action(_ACTION, 'os-reserve', actions.reserve, {}, policy=policies.RESERVE,
                     target=access.volume, faults=(errors.QuotaExceeded,),
                     summary='Reserve a volume for a consumer that is named later.'),
    operation.action(_ACTION, 'os-unreserve', actions.unreserve, {}, policy=policies.UNRESERVE,
                     target=access.volume,
                     summary='Release what os-reserve reserved.'),
    operation.action(_ACTION, 'os-begin_detaching', actions.begin_detaching, {},
                     policy=policies.BEGIN_DETACHING, target=access.volume,
                     summary='Announce that one attachment is going to be detached.'),
    operation.action(_ACTION, 'os-roll_detaching', actions.roll_detaching, {},
                     policy=policies.ROLL_DETACHING, target=access.volume,
                     summary='Take the announcement of a detach back.'),
    operation.action(_ACTION, 'os-initialize_connection', actions.initialize_connection,
                     views.INITIALIZE_CONNECTION, policy=policies.INITIALIZE_CONNECTION,
                     target=access.volume, status=200, answer=views.CONNECTION,
                     faults=answers.ATTACHING,
                     summary='Connect a host; answers how it reaches the volume.'),
    operation.action(_ACTION, 'os-terminate_connection', actions.terminate_connection,
                     views.TERMINATE_CONNECTION, policy=policies.TERMINATE_CONNECTION,
                     target=access.volume, faults=answers.DETACHING,
                     summary='Disconnect a host. Where several servers share its connection, it '
                             'stays until os-detach names the attachment that ends.'),
    operation.action(_ACTION, 'os-attach', actions.attach, views.ATTACH, policy=policies.ATTACH,
                     target=access.volume, faults=answers.ATTACHING,
                     summary='Name the consumer of the volume: a server, or a host.'),
    operation.action(_ACTION, 'os-detach', actions.detach, views.DETACH, policy=policies.DETACH,
                     target=access.volume, faults=answers.DETACHING,
                     summary='End one attachment: the named one, else the only one.'),
    operation.action(_ACTION, 'os-force_detach', actions.force_detach, views.FORCE_DETACH,
                     policy=policies.FORCE_DETACH, target=access.volume, faults=answers.DETACHING,
                     summary='End one attachment whatever its state is; touches no other.'),
    operation.action(_ACTION, 'os-reset_status', actions.reset_status, views.RESET_STATUS,
                     policy=policies.RESET_STATUS, target=access.volume,
                     faults=(*answers.ATTACHING, errors.VolumeAtWork),
                     summary='Say what is true of a volume. Refused where it would make an '
                             'orphan: while the volume is made or removed, or live attachments '
                             'contradict it.'),
    operation.action(_ACTION, 'os-update_readonly_flag', actions.update_readonly_flag,
                     views.UPDATE_READONLY_FLAG, policy=policies.UPDATE_READONLY_FLAG,
                     target=access.volume,
                     summary='Let attachments made from now on read only, or not.'),
)
