"""What can be done with volumes."""
from blockattach import errors
from blockattach.api import answers
from blockattach.api.resources.volumes import actions
from blockattach.api.resources.volumes import actions_schemas
from blockattach.api.resources.volumes import handlers
from blockattach.api.resources.volumes import schemas
from blockattach.http import operation
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import volumes as policies


def _hidden(call: operation.Call) -> errors.BlockattachError:
    return errors.VolumeNotFound(volume_id=call.path['id'])


_ACTION = '/volumes/{id}/action'

OPERATIONS = (
    Operation('GET', '/volumes', handlers.index, policy=policies.GET_ALL,
              answer=schemas.NAMES, faults=(errors.VolumeNotFound,),
              summary='List volumes.'),
    Operation('GET', '/volumes/detail', handlers.detail, policy=policies.GET_ALL,
              answer=schemas.DETAILS, extended=schemas.EXTENDED_LIST,
              faults=(errors.VolumeNotFound,),
              summary='List volumes with all that is known of them.'),
    Operation('GET', '/volumes/summary', handlers.summary, since=operation.V(3, 12),
              policy=policies.GET_ALL, answer=schemas.SUMMARY,
              summary='Count volumes, and the GiB they have.'),
    Operation('GET', '/volumes/{id}', handlers.show, policy=policies.GET, refusal=_hidden,
              target=access.volume, answer=schemas.SHOWN, extended=schemas.EXTENDED,
              summary='Show a volume.'),
    Operation('POST', '/volumes', handlers.create, policy=policies.CREATE, status=202,
              body=schemas.CREATE, answer=schemas.CREATED, extended=schemas.EXTENDED,
              faults=(*answers.REPEATED, errors.VolumeTypeNotFound, errors.VolumeTypeChanged),
              summary='Create a volume.'),
    Operation('DELETE', '/volumes/{id}', handlers.delete, policy=policies.DELETE, status=202,
              target=access.volume, answer={operation.BASE: answers.EMPTY},
              summary='Delete a volume.'),
    Operation('GET', '/volumes/{id}/encryption', handlers.encryption,
              policy=policies.ENCRYPTION_METADATA, target=access.volume, answer=schemas.ENCRYPTION,
              summary='Show how a volume is encrypted.'),
    Operation('GET', '/volumes/{id}/encryption/{key}', handlers.encryption_key,
              policy=policies.ENCRYPTION_METADATA, target=access.volume,
              answer=schemas.ENCRYPTION_FACT,
              summary='Show one fact of how a volume is encrypted.'),
    Operation('POST', _ACTION, actions.reserve, policy=policies.RESERVE,
              target=access.volume, action='os-reserve', status=202,
              body=actions_schemas.RESERVE, answer=actions_schemas.NOTHING,
              faults=(errors.QuotaExceeded,),
              summary='Reserve a volume for a consumer that is named later.'),
    Operation('POST', _ACTION, actions.unreserve, policy=policies.UNRESERVE,
              target=access.volume, action='os-unreserve', status=202,
              body=actions_schemas.UNRESERVE, answer=actions_schemas.NOTHING,
              summary='Release what os-reserve reserved.'),
    Operation('POST', _ACTION, actions.begin_detaching, policy=policies.BEGIN_DETACHING,
              target=access.volume, action='os-begin_detaching', status=202,
              body=actions_schemas.BEGIN_DETACHING, answer=actions_schemas.NOTHING,
              summary='Announce that one attachment is going to be detached.'),
    Operation('POST', _ACTION, actions.roll_detaching, policy=policies.ROLL_DETACHING,
              target=access.volume, action='os-roll_detaching', status=202,
              body=actions_schemas.ROLL_DETACHING, answer=actions_schemas.NOTHING,
              summary='Take the announcement of a detach back.'),
    Operation('POST', _ACTION, actions.initialize_connection,
              policy=policies.INITIALIZE_CONNECTION, target=access.volume,
              action='os-initialize_connection',
              body=actions_schemas.INITIALIZE_CONNECTION, answer=actions_schemas.CONNECTION,
              faults=answers.ATTACHING,
              summary='Connect a host; answers how it reaches the volume.'),
    Operation('POST', _ACTION, actions.terminate_connection, policy=policies.TERMINATE_CONNECTION,
              target=access.volume, action='os-terminate_connection', status=202,
              body=actions_schemas.TERMINATE_CONNECTION, answer=actions_schemas.NOTHING,
              faults=answers.DETACHING,
              summary='Disconnect a host. Where several servers share its connection, it stays '
                      'until os-detach names the attachment that ends.'),
    Operation('POST', _ACTION, actions.attach, policy=policies.ATTACH,
              target=access.volume, action='os-attach', status=202,
              body=actions_schemas.ATTACH, answer=actions_schemas.NOTHING,
              faults=answers.ATTACHING,
              summary='Name the consumer of the volume: a server, or a host.'),
    Operation('POST', _ACTION, actions.detach, policy=policies.DETACH,
              target=access.volume, action='os-detach', status=202,
              body=actions_schemas.DETACH, answer=actions_schemas.NOTHING,
              faults=answers.DETACHING,
              summary='End one attachment: the named one, else the only one.'),
    Operation('POST', _ACTION, actions.force_detach, policy=policies.FORCE_DETACH,
              target=access.volume, action='os-force_detach', status=202,
              body=actions_schemas.FORCE_DETACH, answer=actions_schemas.NOTHING,
              faults=answers.DETACHING,
              summary='End one attachment whatever its state is; touches no other.'),
    Operation('POST', _ACTION, actions.reset_status, policy=policies.RESET_STATUS,
              target=access.volume, action='os-reset_status', status=202,
              body=actions_schemas.RESET_STATUS, answer=actions_schemas.NOTHING,
              faults=(*answers.ATTACHING, errors.VolumeAtWork),
              summary='Say what is true of a volume. Refused where it would make an orphan: while '
                      'the volume is made or removed, or live attachments contradict it.'),
    Operation('POST', _ACTION, actions.update_readonly_flag, policy=policies.UPDATE_READONLY_FLAG,
              target=access.volume, action='os-update_readonly_flag', status=202,
              body=actions_schemas.UPDATE_READONLY_FLAG, answer=actions_schemas.NOTHING,
              summary='Let attachments made from now on read only, or not.'),
)
