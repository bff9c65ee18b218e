"""Explanation of pool selection (``/scheduler-stats/explain_pools``, ``blockattach 1.6``)."""
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import handlers
from blockattach.storage.api.resources.volumes import sources

SINCE = operation.V(1, 6)
WANTED = {SINCE: {
    'size': {'type': 'integer', 'description': 'Size of the volume in GiB.'},
    'volume_type': {'type': 'string', 'description': 'Name or ID of the volume type. The default '
                                                     'is the default volume type.'},
    'availability_zone': {'type': 'string', 'description': 'Availability zone. The default is the '
                                                           'default availability zone.'}}}
_VERDICT = {
    'name': answers.TEXT,
    'left_gb': {'type': ['number', 'null']},
    'score': {'type': 'number'},
    'refused_by': answers.NULLABLE_TEXT,
    'reason': answers.NULLABLE_TEXT,
}
EXPLAINED = answers.whole({
    'size': answers.INTEGER,
    'volume_type': answers.TEXT,
    'availability_zone': answers.TEXT,
    'pools': schema.array(answers.whole(_VERDICT)),
})
"""Response schema. The suitable pools are listed first, best first, then the rejected pools.

``left_gb`` is null for a pool without a capacity limit.
"""


def explain(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the score of each pool for a new volume, or the reason why the pool is rejected.

    :raises InvalidInput: if the size is missing or invalid, or if the zone does not exist
    """
    size = call.query.get('size', '')
    # Nine digits fit into the columns of sizes, which have 32 bits.
    if not (size.isascii() and size.isdigit() and len(size) < 10 and int(size) > 0):
        raise errors.InvalidInput(
            f"Value '{errors.shortened(size)}' for 'size' is not a valid size in GiB.")
    kind = handlers.find_kind(services, call, call.query.get('volume_type'))
    zone = sources.zone(services, call.query.get('availability_zone'), None)
    found = services.volumes.judge_pools(call.context, kind, int(size), zone)
    return {'size': int(size), 'volume_type': kind.name, 'availability_zone': zone,
            'pools': [{key: one[key] for key in _VERDICT} for one in found]}
