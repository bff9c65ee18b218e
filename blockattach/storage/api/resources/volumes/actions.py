"""Handlers of volume actions (``POST /volumes/{id}/action``).

Most of these actions are older than the attachments API, and their requests contain less
information. `blockattach.storage.control.legacy` translates these actions to state changes of
attachments.
"""
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.control import reset
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import connection
from blockattach.storage.domain import reset_rule
from blockattach.storage.policy import access

_ATTACH_STATUSES = (None, reset_rule.ATTACHED, reset_rule.DETACHED)


def reserve(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reserve the volume for a consumer that a later request names (os-reserve)."""
    services.legacy.reserve(call.context, call.target, _forbidden_by(services, call))


def unreserve(services: api_services.ApiServices, call: operation.Call) -> None:
    """Release a reservation that os-reserve has created (os-unreserve)."""
    services.legacy.unreserve(call.context, call.target)


def begin_detaching(services: api_services.ApiServices, call: operation.Call) -> None:
    """Announce the detach of an attachment (os-begin_detaching).

    The volume gets the status detaching. No attachment changes.
    """
    services.legacy.begin_detaching(call.context, call.target)


def roll_detaching(services: api_services.ApiServices, call: operation.Call) -> None:
    """Withdraw the announcement of a detach by os-begin_detaching (os-roll_detaching)."""
    services.legacy.roll_detaching(call.context, call.target)


def initialize_connection(services: api_services.ApiServices,
                          call: operation.Call) -> dict[str, Any]:
    """Connect a host, and return its connection information (os-initialize_connection)."""
    connector = _connector(call.body['os-initialize_connection']['connector'])
    row = services.legacy.initialize_connection(call.context, call.target, connector,
                                                _forbidden_by(services, call))
    info = access.connection_infos(services.policy, call.context, services.database,
                                   [row])[row.id]
    assert info is not None
    # The attachments API returns a flat object with these keys. This older action returns a nested
    # object.
    return {'connection_info': {
        'driver_volume_type': info['driver_volume_type'],
        'data': {key: value for key, value in info.items()
                 if key not in answers.CONNECTION_NAMES},
        'enforce_multipath': info['enforce_multipath'],
    }}


def terminate_connection(services: api_services.ApiServices, call: operation.Call) -> None:
    """Disconnect the host of a connector (os-terminate_connection)."""
    connector = call.body['os-terminate_connection']['connector']
    services.legacy.terminate_connection(
        call.context, call.target, None if connector is None else _connector(connector))


def attach(services: api_services.ApiServices, call: operation.Call) -> None:
    """Record the server or the host that uses the volume (os-attach)."""
    body: Mapping[str, str] = call.body['os-attach']
    host = body.get('host_name')
    consumer = attachments.Attached(
        instance_uuid=body.get('instance_uuid'),
        # Cinder stores host names with hyphens instead of spaces.
        host=None if host is None else host.replace(' ', '-'),
        mountpoint=body['mountpoint'],
        mode=connection.AccessMode(body.get('mode', connection.AccessMode.RW)))
    services.legacy.attach(call.context, call.target, consumer, _forbidden_by(services, call))


def detach(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete the attachment that the request names (os-detach).

    A request without an attachment ID deletes the only attachment of the volume.
    """
    # Clients may send null instead of an object.
    body = call.body['os-detach'] or {}
    services.legacy.detach(call.context, call.target, body.get('attachment_id'))


def force_detach(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete an attachment regardless of its state (os-force_detach).

    The connector in the request is ignored, because the attachment row contains the connector.
    """
    body = call.body['os-force_detach']
    services.legacy.force_detach(call.context, call.target, body.get('attachment_id'))


def reset_status(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reset the status, attach status or migration status of a volume (os-reset_status)."""
    # Cinder ignores the case of statuses.
    body = {key: word.lower() for key, word in call.body['os-reset_status'].items()
            if word is not None}
    if not body:
        raise errors.InvalidInput(
            "Must specify 'status', 'attach_status' or 'migration_status' for update.")
    if body.get('migration_status') not in (None, *reset_rule.MIGRATION_STATUSES):
        raise errors.InvalidInput(
            f"Invalid migration_status: {body['migration_status']!r}. Valid statuses are "
            f"{', '.join(sorted(reset_rule.MIGRATION_STATUSES))}.")
    if body.get('attach_status') not in _ATTACH_STATUSES:
        raise errors.InvalidInput(f"Invalid attach_status: {body['attach_status']!r}. Valid "
                                  f"statuses are attached and detached.")
    reset.reset(services.attachments, call.context, call.target, reset_rule.Requested(
        body.get('status'), body.get('attach_status'), body.get('migration_status')))


def force_delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to delete the volume regardless of its status (os-force_delete).

    Live attachments still prevent the deletion.
    """
    services.volumes.delete(call.context, call.target, force=True)


def update_readonly_flag(services: api_services.ApiServices, call: operation.Call) -> None:
    """Set the read-only flag of the volume (os-update_readonly_flag).

    The flag applies to attachments that are created afterwards.
    """
    value = call.body['os-update_readonly_flag']['readonly']
    volumes.set_readonly(services.database, call.target, bool(listing.boolean(value)))


def _forbidden_by(services: api_services.ApiServices, call: operation.Call) -> str | None:
    return access.forbidden_by(services.policy, call.context, call.target)


def _connector(value: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Validate the connector of a request, and return the connector.

    :raises ConnectorUnusable: if the connector is a string, as old clients send, which identifies
        no host
    :raises InvalidInput: if the connector fails `connection.check_connector`
    """
    if isinstance(value, str):
        raise errors.ConnectorUnusable(missing='initiator')
    connection.check_connector(value)
    return value
