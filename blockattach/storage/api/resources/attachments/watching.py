"""Streams of attachment events, for clients of ``blockattach 1.5``."""
from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import responses
from blockattach.platform.http import streams
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.attachments import history as views_of_history
from blockattach.storage.api.resources.attachments import views
from blockattach.storage.db.attachments import history
from blockattach.storage.domain import records
from blockattach.storage.policy import attachments as policies

SINCE = operation.V(1, 5)
Watch = streams.Watch
_LAST = 'Last-Event-ID'


def is_asked(call: operation.Call) -> bool:
    """Return True if the request is for a stream of attachment events instead of a list.

    :raises InvalidInput: if ``watch`` is not a boolean
    """
    return call.extension is not None and call.extension >= SINCE and listing.flag(
        call, views.WATCH)


def watch(services: api_services.ApiServices, call: operation.Call) -> streams.Watch:
    """Return the description of the stream that answers a watch request.

    With ``Last-Event-ID``, the stream starts after this event. Otherwise the stream contains only
    events that occur after the request.

    :raises InvalidInput: if a filter is not supported, or Last-Event-ID is not the ID of an event
    :raises NotAuthorized: if the caller may not watch attachments
    """
    services.policy.authorize(call.context, policies.WATCH, call.context.project_id)
    wanted = views.asked_filters(services, call)
    if wanted is None or wanted.states is not None or wanted.like:
        raise errors.InvalidInput(
            'Cannot watch attachments with these filters. Supported filters are volume_id, '
            'instance_id, host, id and project_id.')
    # Events get their positions only when a reader calls `number`. Without this loop, a new stream
    # would begin with events that occurred before the request.
    while history.number(services.database):
        pass
    first, last = history.positions(services.database)
    text = call.headers.get(_LAST)
    if text is None:
        return streams.Watch(wanted, last)
    # With a higher ID, the stream would send no event until the positions reach the ID.
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= last):
        raise errors.InvalidInput(f'{_LAST} is not the ID of an event of this service.')
    after = int(text)
    return streams.Watch(wanted, after, missed=after + 1 < first)


def render(event: records.AttachmentEvent) -> bytes:
    """Return an attachment event as JSON."""
    return responses.dumps(views_of_history.WATCHED.show(event))
