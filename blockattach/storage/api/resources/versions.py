"""Version discovery, which requires no authentication."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import versions

_OFFER = {operation.OFFER_HEADER:
          f'min={versions.EXTENSION_MINIMUM}, max={versions.EXTENSION_MAXIMUM}'}


def discover(services: Any, call: operation.Call) -> operation.Answer:
    """Return the only major version of the API, with the range of its microversions.

    Clients validate the document with a strict schema. The versions of the extension are therefore
    in a response header.
    """
    return operation.Answer({'versions': [{
        'id': 'v3.0',
        'status': 'CURRENT',
        'version': str(versions.MAXIMUM),
        'min_version': str(versions.MINIMUM),
        'updated': versions.UPDATED,
        'links': [
            {'rel': 'describedby', 'type': 'text/html', 'href': 'https://docs.openstack.org/'},
            {'rel': 'self', 'href': f'{call.base_url}/v3/'},
        ],
        'media-types': [{
            'base': 'application/json',
            'type': 'application/vnd.openstack.volume+json;version=3',
        }],
    }]}, headers=_OFFER)


_TEXT: schema.Schema = {'type': 'string'}

DOCUMENT = schema.wrapped('versions', schema.array(schema.obj({
    'id': _TEXT, 'status': _TEXT, 'version': _TEXT, 'min_version': _TEXT, 'updated': _TEXT,
    'links': schema.array(schema.obj({'rel': _TEXT, 'type': _TEXT, 'href': _TEXT},
                                     ['rel', 'href'])),
    'media-types': schema.array(schema.obj({'base': _TEXT, 'type': _TEXT}, ['base', 'type'])),
}, ['id', 'status', 'version', 'min_version', 'updated', 'links', 'media-types'])))

# Clients may discover versions without a token. Cinder requires a token for ``/v3``.
OPERATIONS = (
    # Cinder's status for a list of versions. Clients read the body.
    operation.Operation(
        'GET', '/', discover, status=300, public=True, root=True,
        answer={operation.BASE: DOCUMENT}, summary='List all API versions.'),
    operation.Operation(
        'GET', '/v3/', discover, public=True, root=True,
        answer={operation.BASE: DOCUMENT}, summary='Show API v3 details.'),
    operation.Operation(
        'GET', '/v3', discover, public=True, root=True,
        answer={operation.BASE: DOCUMENT}, summary='Show API v3 details.'),
)
