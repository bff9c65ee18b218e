"""What each action on a volume does: the body's only key says which.

Most are older than attachments, and say less; `blockattach.storage.control.legacy` translates them
to moves of attachments.
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
    """Reserve the volume for a consumer that is named later."""
    services.legacy.reserve(call.context, call.target, _forbidden_by(services, call))


def unreserve(services: api_services.ApiServices, call: operation.Call) -> None:
    """Release what os-reserve reserved."""
    services.legacy.unreserve(call.context, call.target)


def begin_detaching(services: api_services.ApiServices, call: operation.Call) -> None:
    """Announce a detach."""
    services.legacy.begin_detaching(call.context, call.target)


def roll_detaching(services: api_services.ApiServices, call: operation.Call) -> None:
    """Take an announcement back."""
    services.legacy.roll_detaching(call.context, call.target)


def initialize_connection(services: api_services.ApiServices,
                          call: operation.Call) -> dict[str, Any]:
    """Connect a host; answers how it reaches the volume."""
    connector = _connector(call.body['os-initialize_connection']['connector'])
    row = services.legacy.initialize_connection(call.context, call.target, connector,
                                                _forbidden_by(services, call))
    info = access.connection_infos(services.policy, call.context, services.database,
                                   [row])[row.id]
    assert info is not None
    # The form that clients knew before there were attachments.
    return {'connection_info': {
        'driver_volume_type': info['driver_volume_type'],
        'data': {key: value for key, value in info.items()
                 if key not in answers.CONNECTION_NAMES},
        'enforce_multipath': info['enforce_multipath'],
    }}


def terminate_connection(services: api_services.ApiServices, call: operation.Call) -> None:
    """Disconnect a host."""
    connector = call.body['os-terminate_connection']['connector']
    services.legacy.terminate_connection(
        call.context, call.target, None if connector is None else _connector(connector))


def attach(services: api_services.ApiServices, call: operation.Call) -> None:
    """The consumer uses the volume, and is named: a server or a host."""
    body: Mapping[str, str] = call.body['os-attach']
    host = body.get('host_name')
    consumer = attachments.Attached(
        instance_uuid=body.get('instance_uuid'),
        host=None if host is None else host.replace(' ', '-'),
        mountpoint=body['mountpoint'],
        mode=connection.AccessMode(body.get('mode', connection.AccessMode.RW)))
    services.legacy.attach(call.context, call.target, consumer, _forbidden_by(services, call))


def detach(services: api_services.ApiServices, call: operation.Call) -> None:
    """End one attachment: the named one, else the only one."""
    body = call.body['os-detach'] or {}
    services.legacy.detach(call.context, call.target, body.get('attachment_id'))


def force_detach(services: api_services.ApiServices, call: operation.Call) -> None:
    """End one attachment whatever its state is. Its connector is known; none is needed."""
    body = call.body['os-force_detach']
    services.legacy.force_detach(call.context, call.target, body.get('attachment_id'))


def reset_status(services: api_services.ApiServices, call: operation.Call) -> None:
    """Set the status of a volume, by an administrator."""
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
    """Delete the volume whatever its status is; live attachments prevent it all the same."""
    services.volumes.delete(call.context, call.target, force=True)


def update_readonly_flag(services: api_services.ApiServices, call: operation.Call) -> None:
    """Let attachments made from now on read only, or not."""
    value = call.body['os-update_readonly_flag']['readonly']
    volumes.set_readonly(services.database, call.target, bool(listing.boolean(value)))


def _forbidden_by(services: api_services.ApiServices, call: operation.Call) -> str | None:
    return access.forbidden_by(services.policy, call.context, call.target)


def _connector(value: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """What a host says of itself; a text says nothing.

    :raises ConnectorUnusable: it is a text
    :raises InvalidInput: it is beyond `connection.check_connector`
    """
    if isinstance(value, str):
        raise errors.ConnectorUnusable(missing='initiator')
    connection.check_connector(value)
    return value
