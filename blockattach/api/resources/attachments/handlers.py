"""What each operation on attachments does."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.api import services as api_services
from blockattach.api.resources.attachments import filters
from blockattach.api.resources.attachments import views
from blockattach.db import attachments
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.http import operation
from blockattach.policy import access
from blockattach.policy import attachments as policies
from blockattach.policy import connection_info


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List attachments, a line each."""
    return {'attachments': [views.summary(one) for one in filters.listed(services, call)]}


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List attachments with all that is known of them."""
    return {'attachments': _details(
        services, call, filters.listed(services, call, sealed=True))}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one attachment."""
    shown = _detail(services, call, call.target)
    shown['attachment'] |= views.reserved(services, call, call.target)
    return shown


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Reserve a volume, and with a connector connect its host too."""
    wish = call.body['attachment']
    expected = access.volume_to_attach(call.context, services.database, wish['volume_uuid'],
                                       wish.get('instance_uuid'), wish.get('connector'))
    volume = expected.volume
    services.policy.authorize(call.context, policies.CREATE, volume.project_id)
    asked = attachments.Wish(
        volume.id, volume.project_id, wish.get('instance_uuid'),
        connection.AccessMode(wish['mode']) if 'mode' in wish else None, _connector(wish),
        forbidden_by=access.forbidden_by(services.policy, call.context, volume),
        expected=expected)
    made = services.attachments.create(call.context, volume, asked, call.named())
    return _detail(services, call, made)


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Connect the host of a connector."""
    connector = _connector(call.body['attachment'])
    assert connector is not None
    return _detail(services, call,
                   services.attachments.update(call.context, call.target, connector))


def complete(services: api_services.ApiServices, call: operation.Call) -> None:
    """The consumer uses the volume."""
    services.attachments.complete(call.context, call.target)


def delete(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Remove an attachment; answers the remaining ones of its volume."""
    if filters.forced(services, call):
        remaining = services.attachments.delete(call.context, call.target, force=True)
    else:
        remaining = services.attachments.delete(call.context, call.target)
    more = views.remaining(services, call, remaining)
    return {'attachments': [{**views.summary(one), **more[one.id]} for one in remaining]}


def _detail(services: api_services.ApiServices, call: operation.Call,
            attachment: records.Attachment) -> dict[str, Any]:
    return {'attachment': _details(services, call, [attachment])[0]}


def _details(services: api_services.ApiServices, call: operation.Call,
             rows: Sequence[records.Attachment]) -> list[dict[str, Any]]:
    infos = connection_info.shown(services.policy, call.context, services.database, rows)
    more = views.more(services, call, rows)
    return [{**views.detail(one, infos[one.id]), **more[one.id]} for one in rows]


def _connector(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a host says of itself; None: nothing.

    :raises InvalidInput: it is beyond `connection.check_connector`
    """
    found = asked.get('connector') or {}
    connection.check_connector(found)
    return found or None
