"""Actions that extend, retype and migrate volumes, for which the scheduler selects a pool."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.control import placement
from blockattach.storage.db.volumes import moving
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

_IN_USE = operation.V(3, 42)

EXTEND = schema.obj({'new_size': {
    'type': ['integer', 'string'], 'minimum': 1, 'maximum': 2 ** 31 - 1,
    'pattern': '^[0-9]{1,9}$'}}, required=['new_size'])
EXTEND_COMPLETION = schema.obj({'error': {'type': ['string', 'null', 'boolean']}})

CLUSTERS = operation.V(3, 16)
"""First version in which a migration names a host or a cluster."""
_ON_DEMAND = 'on-demand'
_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_HOW = {'force_host_copy': views.BOOLEAN, 'lock_volume': views.BOOLEAN}

RETYPE = schema.obj({'new_type': {'type': 'string', 'maxLength': 255},
                     'migration_policy': {'enum': [None, _ON_DEMAND, 'never']}},
                    required=['new_type'])
MIGRATE = {version: schema.wrapped('os-migrate_volume', body) for version, body in (
    (operation.BASE, schema.obj({'host': {'type': 'string', 'maxLength': 255}, **_HOW},
                                required=['host'])),
    (CLUSTERS, schema.obj({'host': _NAME, 'cluster': _NAME, **_HOW})))}
MIGRATION_COMPLETION = schema.obj({'new_volume': schema.UUID,
                                   'error': {'type': ['string', 'null', 'boolean']}},
                                  required=['new_volume'])


def extend(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to extend a volume (os-extend). A volume in use can be extended from 3.42 on."""
    in_use = call.version >= _IN_USE and call.target.status == placement.IN_USE
    # Cinder has a policy rule of its own for volumes in use.
    if in_use:
        services.policy.authorize(call.context, policies.EXTEND_ATTACHED, call.target.project_id)
    services.placement.extend(call.context, call.target,
                              int(call.body['os-extend']['new_size']), in_use)


def complete_extend(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reject the request of a consumer to complete an extend (os-extend_volume_completion).

    An extend never waits for the consumer, because backends extend volumes by themselves.

    :raises InvalidVolume: always
    """
    if call.target.own_status != volume_lifecycle.OwnStatus.EXTENDING:
        raise errors.InvalidVolume(reason='Volume is not being extended.')
    raise errors.InvalidVolume(reason='Required volume admin metadata is malformed or missing.')


def migrate(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to migrate a volume to another backend (os-migrate_volume).

    The data is always copied, as in Cinder with ``force_host_copy``.

    :raises InvalidInput: if the request names neither a host nor a cluster, or both
    """
    asked = call.body['os-migrate_volume']
    named = list(filter(None, (asked.get('host'), asked.get('cluster'))))
    if len(named) != 1:
        raise errors.InvalidInput('One and only one of cluster and host must be set.')
    services.placement.migrate(call.context, call.target, named[0],
                               bool(listing.boolean(asked.get('lock_volume', False))))


def complete_migration(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reject the request of a consumer to complete a migration (os-migrate_volume_completion).

    A migration never waits for the consumer, because only volumes without attachments migrate.

    :raises VolumeNotFound: if the new volume in the request does not exist
    :raises InvalidVolume: if the new volume exists
    """
    access.volume(call.context, services.database,
                  call.body['os-migrate_volume_completion']['new_volume'])
    raise errors.InvalidVolume(reason='Source volume not mid-migration.')


def retype(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to change the type of a volume (os-retype)."""
    asked: dict[str, Any] = call.body['os-retype']
    kind = access.find_volume_type(call.context, services.database, asked['new_type'])
    multiattach = volume_type.is_multiattach(kind.extra_specs)
    if multiattach != call.target.multiattach and call.target.status != 'available':
        raise errors.InvalidInput(
            f'Invalid input received: Invalid volume_type passed, retypes affecting multiattach '
            f'are only allowed on available volumes, the specified volume however currently has '
            f'a status of: {call.target.status}.')
    volume_type.check_usable(kind)
    if multiattach and not call.target.multiattach:
        services.policy.authorize(call.context, policies.MULTIATTACH, call.target.project_id)
    services.placement.retype(call.context, call.target, moving.Retyping(
        kind, asked.get('migration_policy') == _ON_DEMAND))
