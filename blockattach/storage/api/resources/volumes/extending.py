"""Actions that extend volumes."""
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import V
from blockattach.storage import errors
from blockattach.storage.api import services as api_services
from blockattach.storage.control import extending
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.policy import volumes as policies

_IN_USE = V(3, 42)

EXTEND = schema.obj({'new_size': {
    'type': ['integer', 'string'], 'minimum': 1, 'maximum': 2 ** 31 - 1,
    'pattern': '^[0-9]{1,9}$'}}, required=['new_size'])
COMPLETION = schema.obj({'error': {'type': ['string', 'null', 'boolean']}})


def extend(services: api_services.ApiServices, call: operation.Call) -> None:
    """Extend a volume. A volume in use can be extended since 3.42."""
    in_use = call.version >= _IN_USE and call.target.status == extending.IN_USE
    if in_use:
        services.policy.authorize(call.context, policies.EXTEND_ATTACHED, call.target.project_id)
    services.extending.extend(call.context, call.target,
                              int(call.body['os-extend']['new_size']), in_use)


def complete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reject the completion of an extend operation.

    No extend operation waits for the consumer, because backends extend volumes by themselves.

    :raises InvalidVolume: always
    """
    if call.target.own_status != volume_lifecycle.OwnStatus.EXTENDING:
        raise errors.InvalidVolume(reason='Volume is not being extended.')
    raise errors.InvalidVolume(reason='Required volume admin metadata is malformed or missing.')
