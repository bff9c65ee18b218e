"""Handlers of attachment operations."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform.http import operation
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.attachments import views
from blockattach.storage.api.resources.attachments import watching
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.policy import access
from blockattach.storage.policy import attachments as policies

_DRY_RUNS = min(views.CREATION)
"""First version of the extension with dry runs."""


def index(services: api_services.ApiServices,
          call: operation.Call) -> dict[str, Any] | watching.Watch:
    """List attachments, or stream attachment events if ``watch`` is true."""
    if watching.is_asked(call):
        return watching.watch(services, call)
    # Cinder's lists of attachments have neither links nor counts.
    return {'attachments': [views.SUMMARY.show(one) for one in _listed(services, call)]}


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List attachments with details."""
    return {'attachments': _details(services, call, _listed(services, call, sealed=True))}


def facts(services: api_services.ApiServices, call: operation.Call,
          ) -> tuple[bool, views.Pairs, dict[str, Any]]:
    """Return the data for the response of `show` that is not part of the attachment record.

    :returns: whether the caller may see the credential, the (volume, initiator) pair of the
        attachment, and the SCSI reservation of its host
    """
    # The ETag is a digest of these values, so `show` must read nothing else.
    return (access.sees_credential(services.policy, call.context, call.target),
            views.of_pair(services, call, [call.target]),
            views.reserved(services, call, call.target))


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show an attachment."""
    with_credential, pairs, reserved = call.facts
    infos = {call.target.id: access.connection_info(services.database, call.target,
                                                    with_credential)}
    [shown] = views.details([call.target], infos, pairs)
    shown.update(reserved)
    return {'attachment': shown}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create an attachment and, if the request has a connector, connect the host."""
    wish = call.body['attachment']
    expected = access.volume_to_attach(call.context, services.database, wish['volume_uuid'],
                                       wish.get('instance_uuid'), wish.get('connector'))
    volume = expected.volume
    # The operation has no target, so the dispatcher has checked the rule for the caller's project.
    services.policy.authorize(call.context, policies.CREATE, volume.project_id)
    asked = attachments.Wish(
        volume.id, volume.project_id, wish.get('instance_uuid'),
        connection.AccessMode(wish['mode']) if 'mode' in wish else None, _connector(wish),
        forbidden_by=access.forbidden_by(services.policy, call.context, volume),
        expected=expected)
    if call.extension is not None and call.extension >= _DRY_RUNS and listing.flag(
            call, views.DRY_RUN):
        return _dry_run(services, call, asked)
    made = services.attachments.create(call.context, volume, asked, call.named())
    return _detail(services, call, made)


def _dry_run(services: api_services.ApiServices, call: operation.Call,
             wish: attachments.Wish) -> dict[str, Any]:
    row = services.explaining.dry_run(call.context, wish)
    pair = records.Pair([], False) if row.initiator is None else attachment_queries.of_pair(
        services.database, row.volume_id, row.initiator)
    return {'attachment': views.details([row], {row.id: row.connection_info(None)}, [pair])[0]}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update an attachment with a connector, and connect the host."""
    connector = _connector(call.body['attachment'])
    # The schema requires at least one key.
    assert connector is not None
    return _detail(services, call,
                   services.attachments.update(call.context, call.target, connector))


def complete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Mark an attachment as completed by its consumer (os-complete)."""
    services.attachments.complete(call.context, call.target)


def delete(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Delete an attachment, and return the remaining attachments of the volume."""
    remaining = services.attachments.delete(call.context, call.target,
                                            force=_forced(services, call))
    return {'attachments': views.remaining(services, call, remaining)}


def _detail(services: api_services.ApiServices, call: operation.Call,
            attachment: records.Attachment) -> dict[str, Any]:
    return {'attachment': _details(services, call, [attachment])[0]}


def _details(services: api_services.ApiServices, call: operation.Call,
             rows: Sequence[records.Attachment]) -> list[dict[str, Any]]:
    infos = access.connection_infos(services.policy, call.context, services.database, rows)
    return views.details(rows, infos, views.of_pair(services, call, rows))


def _connector(requested: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the connector of a request, or None if the request has no connector or an empty one.

    :raises InvalidInput: if the connector fails `connection.check_connector`
    """
    found = requested.get('connector') or {}
    connection.check_connector(found)
    return found or None


def _listed(services: api_services.ApiServices, call: operation.Call,
            sealed: bool = False) -> list[records.Attachment]:
    """Return the requested page of attachments.

    :param sealed: True to include the encrypted credentials of the connections
    :raises InvalidFilter: if a filter is unknown, see `listing.asked`
    :raises InvalidInput: if a value is malformed
    """
    page = listing.page(call, attachment_queries.SORT_COLUMNS, services.settings.osapi_max_limit)
    wanted = views.asked_filters(services, call)
    if wanted is None:
        return []
    return attachment_queries.list_page(services.database, wanted, page, sealed)


def _forced(services: api_services.ApiServices, call: operation.Call) -> bool:
    """Return True if the request is a forced delete, after a check of the authorization.

    :raises InvalidInput: if ``force`` is not a boolean
    :raises NotAuthorized: if the caller may not force a delete
    """
    if call.extension is None or not listing.flag(call, views.FORCE):
        return False
    services.policy.authorize(call.context, policies.FORCE_DELETE, call.target.project_id)
    return True
