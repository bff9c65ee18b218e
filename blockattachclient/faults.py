"""What commands print about a request that failed: what is wrong, and what to do."""
from collections.abc import Mapping
from typing import Any

from osc_lib import exceptions

REMEDIES: Mapping[int, str] = {
    400: 'Change what the message names; "openstack volume attachment tree VOLUME" shows who uses '
         'a volume.',
    401: 'Check the credentials, and log in again.',
    403: 'Ask an administrator, or use an account with the role that the rule requires.',
    404: 'See what there is: "openstack volume attachment detail list".',
    406: 'The service is older than this command: update the service.',
    409: 'See who uses the volume: "openstack volume attachment tree VOLUME".',
    413: 'Delete what is not needed, or ask an administrator for a larger quota.',
    500: 'See the log of the service for the id of the request.',
    503: 'The condition is temporary: repeat the command, or give it --wait.',
    504: 'The outcome is unknown: look before you repeat ("openstack volume attachment detail '
         'list"); with --wait the command finds out by itself.',
}
"""What to do, by the status of the answer."""
OF_SERVERS: Mapping[int, str] = {
    **REMEDIES,
    404: 'See what there is: "openstack server list", "openstack volume list".',
    409: 'See what is done with the server: "openstack server show SERVER".',
    503: 'The condition is temporary: repeat the command.',
    504: 'The outcome is unknown: look before you repeat ("openstack server volume list SERVER").',
}
"""The same of answers of Compute."""

NO_EXTENSION = (
    'This Block Storage service does not answer with the extension "blockattach": it is another '
    'service, or something between drops the header OpenStack-API-Version. Use the stock commands '
    '("openstack volume attachment list").')
TOO_OLD = ('This needs version %s of the extension "blockattach", which the service does not '
           'offer: update the service.')
NO_MODES = ('This Compute service does not know modes of volumes: it is another service. Use the '
            'stock commands ("openstack server add volume").')
NO_BACKEND = ('No volume service is up: see "openstack volume service list".')
NO_ANSWER = ('The service cannot be reached: %s. Check that it is running and that the catalog '
             'has the right address for it.')


def of_answer(status: int, body: Any, request_id: str | None,
              remedies: Mapping[int, str] = REMEDIES) -> exceptions.CommandError:
    """The error for an answer that is one."""
    parts = [f'{sentence(body) or "the service gave no reason"} (HTTP {status}).']
    if status in remedies:
        parts.append(remedies[status])
    if request_id and status >= 500:
        parts.append(f'Request: {request_id}')
    return exceptions.CommandError(' '.join(parts))


def sentence(body: Any) -> str:
    """The message of an answer, without its full stop; empty if there is none."""
    if isinstance(body, dict):
        for inner in body.values():
            if isinstance(inner, dict) and isinstance(inner.get('message'), str):
                return str(inner['message']).strip().rstrip('.')
    return ''
