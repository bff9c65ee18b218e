"""Attachments: a volume that a host uses, or is about to; what can be done with them."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api.resources.attachments import handlers
from blockattach.api.resources.attachments import history
from blockattach.api.resources.attachments import views
from blockattach.http import operation
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import attachments as policies

_SINCE = operation.V(3, 27)
_DETAIL: dict[operation.V, Any] = {_SINCE: views.SHOWN}

OPERATIONS = (
    Operation('GET', '/attachments', handlers.index, since=_SINCE, policy=policies.GET_ALL,
              answer={_SINCE: views.SUMMARIES}, parameters=views.INDEX,
              summary='List attachments, or watch them.'),
    Operation('GET', '/attachments/detail', handlers.detail, since=_SINCE,
              policy=policies.GET_ALL, answer={_SINCE: views.DETAILS},
              extended=views.EACH_EXTENDED, parameters=views.FILTERS,
              summary='List attachments with all that is known of them.'),
    Operation('GET', '/attachments/history', history.show_of_volume, since=_SINCE,
              extension=history.OF_VOLUME_SINCE, policy=policies.HISTORY,
              answer={_SINCE: history.HISTORY_OF_VOLUME}, parameters=history.OF_VOLUME,
              summary='Show what happened to the attachments of a volume.'),
    Operation('GET', '/attachments/{id}', handlers.show, since=_SINCE, policy=policies.GET,
              target=access.attachment, facts=handlers.facts, answer=_DETAIL,
              extended=views.SHOWN_EXTENDED,
              summary='Show an attachment.'),
    Operation('GET', '/attachments/{id}/history', history.show, since=_SINCE,
              extension=history.SINCE, policy=policies.HISTORY,
              target=access.attachment_even_gone, answer={_SINCE: history.HISTORY},
              parameters=history.PAGE, summary='Show what happened to an attachment.'),
    Operation('GET', '/attachments/{id}/explain', history.explain, since=_SINCE,
              extension=history.SINCE, policy=policies.EXPLAIN,
              target=access.attachment_even_gone, answer={_SINCE: history.EXPLAINED},
              summary='Explain why an attachment is as it is.'),
    Operation('POST', '/attachments', handlers.create, since=_SINCE, policy=policies.CREATE,
              body={_SINCE: views.CREATE, operation.V(3, 54): views.CREATE_WITH_MODE},
              answer=_DETAIL, extended=views.ONE_EXTENDED, parameters=views.CREATION,
              faults=(*answers.ATTACHING, *answers.REPEATED, errors.QuotaExceeded),
              summary='Reserve a volume, and with a connector connect its host.'),
    Operation('PUT', '/attachments/{id}', handlers.update, since=_SINCE, policy=policies.UPDATE,
              target=access.attachment, body={_SINCE: views.UPDATE}, answer=_DETAIL,
              extended=views.ONE_EXTENDED, faults=answers.ATTACHING,
              summary='Connect the host of a connector.'),
    # Clients send null, an object or the attachment's id as the body.
    operation.action('/attachments/{id}/action', 'os-complete', handlers.complete, {},
                     since=operation.V(3, 44), policy=policies.COMPLETE,
                     target=access.attachment, status=204, faults=(errors.InvalidTransition,),
                     summary='Say that the consumer uses the volume.'),
    Operation('DELETE', '/attachments/{id}', handlers.delete, since=_SINCE,
              policy=policies.DELETE, target=access.attachment, answer={_SINCE: views.SUMMARIES},
              extended=views.REMAINING_EXTENDED, parameters=views.DELETION,
              faults=answers.DETACHING,
              summary='Disconnect an attachment and remove it; answers the remaining ones.'),
)
