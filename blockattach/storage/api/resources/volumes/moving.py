"""Actions that retype and migrate volumes."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import V
from blockattach.storage import errors
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.db.volumes import moving
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

CLUSTERS = V(3, 16)
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
COMPLETION = schema.obj({'new_volume': schema.UUID,
                         'error': {'type': ['string', 'null', 'boolean']}},
                        required=['new_volume'])


def migrate(services: api_services.ApiServices, call: operation.Call) -> None:
    """Migrate a volume to another backend.

    The data are always copied, as with force_host_copy.

    :raises InvalidInput: the request names neither a host nor a cluster, or both
    """
    asked = call.body['os-migrate_volume']
    named = list(filter(None, (asked.get('host'), asked.get('cluster'))))
    if len(named) != 1:
        raise errors.InvalidInput('One and only one of cluster and host must be set.')
    services.moving.migrate(call.context, call.target, named[0],
                            bool(listing.boolean(asked.get('lock_volume', False))))


def complete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reject the completion of a migration.

    No migration waits for the consumer, because only unused volumes are migrated.

    :raises VolumeNotFound: the new volume does not exist
    :raises InvalidVolume: the new volume exists
    """
    access.volume(call.context, services.database,
                  call.body['os-migrate_volume_completion']['new_volume'])
    raise errors.InvalidVolume(reason='Source volume not mid-migration.')


def retype(services: api_services.ApiServices, call: operation.Call) -> None:
    """Retype a volume."""
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
    services.moving.retype(call.context, call.target, moving.Retyping(
        kind, asked.get('migration_policy') == _ON_DEMAND))
