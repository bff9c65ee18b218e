"""What commands print about a request that failed: what is wrong, and what to do."""
from collections.abc import Mapping
from typing import Any

from osc_lib import exceptions

REMEDIES: Mapping[int, str] = {
    400: 'Correct the request as the message says.',
    401: 'Check the credentials, and log in again.',
    403: 'Ask an administrator, or use an account with the role that the rule requires.',
    404: 'Check the name or ID.',
    406: 'The service is older than this command: update the service.',
    409: 'See who uses the volume: "openstack volume attachment tree VOLUME".',
    413: 'Delete what is not needed, or ask an administrator for a larger quota.',
    500: 'See the log of the service for the id of the request.',
    503: 'The condition is temporary: repeat the command, with --wait if it has that option.',
    504: 'The outcome is unknown: look before you repeat ("openstack volume attachment detail '
         'list"). A command with the option --wait finds out by itself.',
}
"""What to do, by the status of the answer."""
OF_MESSAGES = (
    (400, 'Invalid volume: ', 'See who uses the volume: "openstack volume attachment tree '
                              'VOLUME".'),
    (404, 'Volume attachment ', 'See what there is: "openstack volume attachment detail list".'),
    (404, 'Volume type ', 'See what there is: "openstack volume type list".'),
    (404, 'Service cinder-', 'See what there is: "openstack volume service list".'),
    (404, 'Volume ', 'See what there is: "openstack volume list".'),
)
"""Advice by status and beginning of the message. The first match is used."""
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
    said = sentence(body)
    parts = [f'{said or "the service gave no reason"} (HTTP {status}).']
    remedy = next((text for number, begins, text in OF_MESSAGES
                   if number == status and said.startswith(begins)), remedies.get(status))
    if remedy:
        parts.append(remedy)
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
