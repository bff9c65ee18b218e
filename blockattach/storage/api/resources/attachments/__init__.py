"""Attachments of volumes to hosts, and the operations on them."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http.operation import Operation
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api.resources.attachments import handlers
from blockattach.storage.api.resources.attachments import history
from blockattach.storage.api.resources.attachments import views
from blockattach.storage.policy import access
from blockattach.storage.policy import attachments as policies

_SINCE = operation.V(3, 27)
_DETAIL: dict[operation.V, Any] = {_SINCE: views.SHOWN}

OPERATIONS = (
    Operation('GET', '/attachments', handlers.index, since=_SINCE, policy=policies.GET_ALL,
              answer={_SINCE: views.SUMMARIES}, parameters=views.INDEX,
              summary='List attachments, or watch attachment events.'),
    Operation('GET', '/attachments/detail', handlers.detail, since=_SINCE,
              policy=policies.GET_ALL, answer={_SINCE: views.DETAILS},
              extended=views.EACH_EXTENDED, parameters=views.FILTERS,
              summary='List attachments with details.'),
    # This operation has no target, because the volume may be deleted. The handler filters the
    # events by project instead.
    Operation('GET', '/attachments/history', history.show_of_volume, since=_SINCE,
              extension=history.OF_VOLUME_SINCE, policy=policies.HISTORY,
              answer={_SINCE: history.HISTORY_OF_VOLUME}, parameters=history.OF_VOLUME,
              summary='List the events of all attachments of a volume.'),
    Operation('GET', '/attachments/{id}', handlers.show, since=_SINCE, policy=policies.GET,
              target=access.attachment, facts=handlers.facts, answer=_DETAIL,
              extended=views.SHOWN_EXTENDED,
              summary='Show attachment details.'),
    Operation('GET', '/attachments/{id}/history', history.show, since=_SINCE,
              extension=history.SINCE, policy=policies.HISTORY,
              target=access.attachment_even_gone, answer={_SINCE: history.HISTORY},
              parameters=history.PAGE, summary='List the events of an attachment.'),
    Operation('GET', '/attachments/{id}/explain', history.explain, since=_SINCE,
              extension=history.SINCE, policy=policies.EXPLAIN,
              target=access.attachment_even_gone, answer={_SINCE: history.EXPLAINED},
              summary='Explain the state of an attachment.'),
    Operation('POST', '/attachments', handlers.create, since=_SINCE, policy=policies.CREATE,
              body={_SINCE: views.CREATE, operation.V(3, 54): views.CREATE_WITH_MODE},
              answer=_DETAIL, extended=views.ONE_EXTENDED, parameters=views.CREATION,
              faults=(*answers.ATTACHING, *answers.REPEATED, errors.QuotaExceeded),
              summary='Create an attachment. The request reserves the volume and, with a '
                      'connector, connects the host.'),
    Operation('PUT', '/attachments/{id}', handlers.update, since=_SINCE, policy=policies.UPDATE,
              target=access.attachment, body={_SINCE: views.UPDATE}, answer=_DETAIL,
              extended=views.ONE_EXTENDED, faults=answers.ATTACHING,
              summary='Update an attachment with a connector, and connect the host.'),
    # Clients send null, an object or the attachment's ID as the value.
    operation.action('/attachments/{id}/action', 'os-complete', handlers.complete, {},
                     since=operation.V(3, 44), policy=policies.COMPLETE,
                     target=access.attachment, status=204, faults=(errors.InvalidTransition,),
                     summary='Complete an attachment. The request confirms that the consumer uses '
                             'the volume.'),
    # As in Cinder, the response has status 200 and a body, because clients parse the list.
    Operation('DELETE', '/attachments/{id}', handlers.delete, since=_SINCE,
              policy=policies.DELETE, target=access.attachment, answer={_SINCE: views.SUMMARIES},
              extended=views.REMAINING_EXTENDED, parameters=views.DELETION,
              faults=answers.DETACHING,
              summary='Delete an attachment. The host is disconnected unless another attachment '
                      'uses the connection. The response lists the remaining attachments of the '
                      'volume.'),
)
