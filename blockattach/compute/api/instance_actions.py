"""Instance actions: ``/servers/{id}/os-instance-actions``."""
import datetime
from typing import Any

from blockattach.compute import errors
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.compute.api import views
from blockattach.compute.store import instance_actions
from blockattach.platform.http import operation


def index(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the instance actions of a server, newest first.

    :raises ServerRequestInvalid: the query is invalid
    """
    if call.version < versions.ACTION_PAGES:
        found = services.database.actions(call.target.id, instance_actions.Wanted())
        return {'instanceActions': [views.action(call, one) for one in found]}
    since, until = _time(call, 'changes-since'), _time(call, 'changes-before')
    if since is not None and until is not None and since > until:
        raise errors.ServerRequestInvalid(reason=(
            'The value of changes-since must be less than or equal to changes-before.'))
    found = services.database.actions(call.target.id, instance_actions.Wanted(
        before=_marked(services, call), since=since, until=until, limit=views.page_size(call) + 1))
    return views.page(call, 'instanceActions', [views.action(call, one) for one in found],
                      'request_id', 'links')


def show(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Show an instance action of a server, with its event if the caller may see the event.

    :raises NotFound: the server has no action with the given request id
    """
    server: records.Server = call.target
    found = _of_request(services, server, call.path['request_id'])
    if found is None:
        raise errors.NotFound(
            f"Action {errors.shortened(call.path['request_id'])} not found")
    shown = views.action(call, found)
    if call.version >= versions.EVENTS_SHOWN or services.policy.allowed(
            call.context, policies.ACTIONS_EVENTS, server.project_id):
        shown['events'] = [views.event(services, call, server, found)]
    return {'instanceAction': shown}


def _of_request(services: compute_services.ComputeServices, server: records.Server,
                request_id: str) -> records.Action | None:
    return next(iter(services.database.actions(server.id, instance_actions.Wanted(
        request_id=request_id, limit=1))), None)


def _marked(services: compute_services.ComputeServices, call: operation.Call) -> int | None:
    marker = call.query.get('marker')
    if not marker:
        return None
    found = _of_request(services, call.target, marker)
    if found is None:
        raise errors.ServerRequestInvalid(
            reason=f'marker [{errors.shortened(marker)}] not found')
    return found.number


def _time(call: operation.Call, name: str) -> datetime.datetime | None:
    text = call.query.get(name)
    if text is None:
        return None
    try:
        value = datetime.datetime.fromisoformat(text)
        # The database contains times in UTC without a time zone.
        return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(
            tzinfo=None)
    except (ValueError, OverflowError):
        raise errors.ServerRequestInvalid(reason=(
            f'Invalid input for query parameters {name}. Value: {errors.shortened(text)}')
        ) from None
