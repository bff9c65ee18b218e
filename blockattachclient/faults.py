"""Error messages for failed requests, with their causes and remedies."""
from collections.abc import Mapping
from typing import Any

from osc_lib import exceptions

REMEDIES: Mapping[int, str] = {
    400: 'Correct the request and repeat the command.',
    401: 'Check the credentials and authenticate again.',
    403: 'Ask an administrator, or use an account with the required role.',
    404: 'Check the name or ID.',
    406: 'The service is older than this command. Upgrade the service.',
    409: 'Show the users of the volume with "openstack volume attachment tree VOLUME".',
    413: 'Delete unused resources, or ask an administrator for a larger quota.',
    500: 'Search the log of the service for the request ID.',
    503: 'The condition is temporary. Repeat the command, with --wait if the command has that '
         'option.',
    504: 'The outcome is unknown. Check with "openstack volume attachment detail list" before you '
         'repeat the command, or use --wait if the command has that option.',
}
"""Remedies by HTTP status of a response of Block Storage."""
OF_MESSAGES = (
    (400, 'Invalid volume: ', 'Show the users of the volume with "openstack volume attachment '
                              'tree VOLUME".'),
    (404, 'Volume attachment ', 'List the attachments with "openstack volume attachment detail '
                                'list".'),
    (404, 'Volume type ', 'List the volume types with "openstack volume type list".'),
    (404, 'Service cinder-', 'List the services with "openstack volume service list".'),
    # After the other texts that begin with this word.
    (404, 'Volume ', 'List the volumes with "openstack volume list".'),
)
"""HTTP status, beginning of the error message, and remedy. The first match is used."""
OF_SERVERS: Mapping[int, str] = {
    **REMEDIES,
    404: 'List the servers with "openstack server list" and the volumes with "openstack volume '
         'list".',
    409: 'Show the state of the server with "openstack server show SERVER".',
    503: 'The condition is temporary. Repeat the command.',
    504: 'The outcome is unknown. Check with "openstack server volume list SERVER" before you '
         'repeat the command.',
}
"""Remedies by HTTP status of a response of Compute."""

NO_EXTENSION = (
    'This Block Storage service does not support the extension "blockattach", or a proxy drops '
    'the header OpenStack-API-Version. Use the stock commands, such as "openstack volume '
    'attachment list".')
TOO_OLD = ('This command needs version %s of the extension "blockattach", which the service does '
           'not support. Upgrade the service.')
NO_MODES = ('This Compute service does not support access modes of volumes. Use the stock '
            'commands, such as "openstack server add volume".')
NO_BACKEND = 'No volume service is up. Check with "openstack volume service list".'
NO_ANSWER = ('Cannot reach the service: %s. Check that the service is running and that the '
             'catalog has the right address.')


def of_answer(status: int, body: Any, request_id: str | None,
              remedies: Mapping[int, str] = REMEDIES) -> exceptions.CommandError:
    """Return the error for a response with an error status.

    :param remedies: remedies by status, for messages that are not in `OF_MESSAGES`
    """
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
    """Return the error message in a response body without its full stop, or ''."""
    if isinstance(body, dict):
        for inner in body.values():
            if isinstance(inner, dict) and isinstance(inner.get('message'), str):
                return str(inner['message']).strip().rstrip('.')
    return ''
