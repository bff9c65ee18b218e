"""List of the operations of all resources.

The documents about policy rules and API versions are generated from this list.
"""
from blockattach.platform.http import operation
from blockattach.storage.api.resources import attachments
from blockattach.storage.api.resources import clusters
from blockattach.storage.api.resources import default_types
from blockattach.storage.api.resources import extensions
from blockattach.storage.api.resources import hosts
from blockattach.storage.api.resources import messages
from blockattach.storage.api.resources import not_offered
from blockattach.storage.api.resources import pools
from blockattach.storage.api.resources import qos_specs
from blockattach.storage.api.resources import quotas
from blockattach.storage.api.resources import resource_filters
from blockattach.storage.api.resources import services
from blockattach.storage.api.resources import snapshots
from blockattach.storage.api.resources import transfers
from blockattach.storage.api.resources import versions
from blockattach.storage.api.resources import volume_types
from blockattach.storage.api.resources import volumes
from blockattach.storage.api.resources import workers

# The order does not decide which operation a request matches, see `dispatch.Table`.
FAMILIES = (
    versions.OPERATIONS,
    volume_types.OPERATIONS,
    default_types.OPERATIONS,
    qos_specs.OPERATIONS,
    volumes.OPERATIONS,
    attachments.OPERATIONS,
    snapshots.OPERATIONS,
    transfers.OPERATIONS,
    messages.OPERATIONS,
    quotas.OPERATIONS,
    services.OPERATIONS,
    clusters.OPERATIONS,
    hosts.OPERATIONS,
    workers.OPERATIONS,
    not_offered.OPERATIONS,
    pools.OPERATIONS,
    resource_filters.OPERATIONS,
)


def operations() -> tuple[operation.Operation, ...]:
    """Return all operations of the API."""
    rows = tuple(row for family in FAMILIES for row in family)
    # The operations on extensions come last, because their result depends on the other operations.
    return (*rows, *extensions.operations(rows))
