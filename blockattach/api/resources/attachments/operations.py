"""What can be done with attachments."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.api.resources.attachments import extension
from blockattach.api.resources.attachments import handlers
from blockattach.api.resources.attachments import schemas
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import attachments as policies


def _attachment(services: api_services.ApiServices, call: operation.Call) -> records.Attachment:
    return access.attachment(call.context, services.database, call.path['id'])


_SINCE = operation.V(3, 27)
_DETAIL: dict[operation.V, Any] = {_SINCE: schemas.DETAIL}

OPERATIONS = (
    Operation('GET', '/attachments', handlers.index, since=_SINCE, policy=policies.GET_ALL,
              answer={_SINCE: schemas.SUMMARIES}, parameters=extension.FILTERS,
              summary='List attachments.'),
    Operation('GET', '/attachments/detail', handlers.detail, since=_SINCE,
              policy=policies.GET_ALL, answer={_SINCE: schemas.DETAILS}, extended=extension.EACH,
              parameters=extension.FILTERS,
              summary='List attachments with all that is known of them.'),
    Operation('GET', '/attachments/{id}', handlers.show, since=_SINCE, policy=policies.GET,
              target=_attachment, answer=_DETAIL, extended=extension.SHOWN,
              summary='Show an attachment.'),
    Operation('POST', '/attachments', handlers.create, since=_SINCE, policy=policies.CREATE,
              body={_SINCE: schemas.CREATE, operation.V(3, 54): schemas.CREATE_WITH_MODE},
              answer=_DETAIL, extended=extension.ONE,
              faults=(*answers.ATTACHING, *answers.REPEATED, errors.QuotaExceeded),
              summary='Reserve a volume, and with a connector connect its host.'),
    Operation('PUT', '/attachments/{id}', handlers.update, since=_SINCE, policy=policies.UPDATE,
              target=_attachment, body={_SINCE: schemas.UPDATE}, answer=_DETAIL,
              extended=extension.ONE, faults=answers.ATTACHING,
              summary='Connect the host of a connector.'),
    Operation('POST', '/attachments/{id}/action', handlers.complete, since=operation.V(3, 44),
              policy=policies.COMPLETE, target=_attachment, action='os-complete', status=204,
              body={operation.V(3, 44): schemas.COMPLETE},
              answer={operation.V(3, 44): answers.EMPTY},
              faults=(errors.InvalidTransition,),
              summary='Say that the consumer uses the volume.'),
    Operation('DELETE', '/attachments/{id}', handlers.delete, since=_SINCE,
              policy=policies.DELETE, target=_attachment, answer={_SINCE: schemas.SUMMARIES},
              extended=extension.REMAINING, parameters=extension.DELETION,
              faults=answers.DETACHING,
              summary='Disconnect an attachment and remove it; answers the remaining ones.'),
)
