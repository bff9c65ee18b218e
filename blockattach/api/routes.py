"""THE list of resource families. Policy and version documents are read from it."""
from blockattach.api.resources import attachments
from blockattach.api.resources import clusters
from blockattach.api.resources import default_types
from blockattach.api.resources import extensions
from blockattach.api.resources import hosts
from blockattach.api.resources import messages
from blockattach.api.resources import not_offered
from blockattach.api.resources import pools
from blockattach.api.resources import qos_specs
from blockattach.api.resources import quotas
from blockattach.api.resources import resource_filters
from blockattach.api.resources import services
from blockattach.api.resources import snapshots
from blockattach.api.resources import transfers
from blockattach.api.resources import versions
from blockattach.api.resources import volume_type_access
from blockattach.api.resources import volume_types
from blockattach.api.resources import volumes
from blockattach.api.resources import workers
from blockattach.http import operation

FAMILIES = (
    versions.OPERATIONS,
    volume_types.OPERATIONS,
    volume_type_access.OPERATIONS,
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
    """Every operation of the API."""
    rows = tuple(row for family in FAMILIES for row in family)
    return (*rows, *extensions.operations(rows))
