"""Options by which commands select attachments, and the requests for the selected attachments."""
import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import initiator
from blockattachclient import sessions as host_sessions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that list attachments."""
    parser.add_argument('--host', metavar='<host>', type=arguments.text,
                        help='Show only attachments of this host')
    parser.add_argument('--server', metavar='<server>', type=arguments.text,
                        help='Show only attachments of this server: the ID, or the name, which '
                             'is looked up in Compute')
    parser.add_argument('--state', metavar='<state>', choices=columns.STATES,
                        help=f'Show only attachments in this state: {", ".join(columns.STATES)}')
    parser.add_argument('--stuck', action='store_true',
                        help='Show only attachments that need attention: in an error state, '
                             'connected but not completed for 10 minutes, or with a last error')
    parser.add_argument('--all-projects', action='store_true',
                        help='Show attachments of all projects (administrators only)')


def client(command: Any) -> api.Api:
    """Return the API client of the application to which a command belongs."""
    found = command.app.client_manager.blockattach
    assert isinstance(found, api.Api)
    return found


def server_id(service: api.Api, given: str) -> str:
    """Return the ID of a server whose ID or name is given. Only names are looked up in Compute."""
    return given if arguments.is_id(given) else service.server_id(given)


def attachments(service: api.Api, given: argparse.Namespace,
                volume_id: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the attachments that the options select, newest first.

    Each attachment gets the additional key ``age``, the seconds since the host was connected, or
    None if no host is connected.
    """
    query: dict[str, Any] = {
        'host': given.host, 'volume_id': volume_id, 'status': given.state,
        'instance_id': server_id(service, given.server) if given.server else None,
        'all_tenants': 1 if given.all_projects else None}
    for one, now in service.attachments({
            key: value for key, value in query.items() if value is not None}):
        found = {**one, 'age': columns.age(one, now)}
        if not given.stuck or columns.is_stuck(found):
            yield found


def sessions(service: api.Api, host: initiator.Initiator,
             present: Iterable[host_sessions.Session], all_projects: bool,
             ) -> list[tuple[host_sessions.Session, str, list[str]]]:
    """Return the iSCSI sessions of this host with their uses and attachments.

    :returns: results of `blockattachclient.sessions.uses`
    """
    service.require_extension()
    own = host.properties()
    query = {'host': own['host'], **({'all_tenants': 1} if all_projects else {})}
    here = [one for one, _ in service.attachments(query)
            if initiator.is_same(one['connector'], own)]
    return list(host_sessions.uses(
        present, here, lambda volume_id: bool(service.volumes([volume_id], all_projects))))


def is_narrowed(given: argparse.Namespace) -> bool:
    """Return True if the options can exclude attachments."""
    return bool(given.host or given.server or given.state or given.stuck)
