"""Resource filters: the filters of lists that the operator has configured for users."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services

_SINCE = V(3, 33)


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the configured filters of all resources, or of the requested resource."""
    wanted = call.query.get('resource')
    return {'resource_filters': [
        {'resource': resource, 'filters': list(names)}
        for resource, names in services.filters.items() if wanted in (None, '', resource)]}


_FILTERS = answers.whole({'resource': answers.TEXT, 'filters': schema.array(answers.TEXT)})

OPERATIONS = (
    Operation('GET', '/resource_filters', index, since=_SINCE,
              answer={_SINCE: schema.wrapped('resource_filters', schema.array(_FILTERS))},
              summary='List resource filters.'),
)
