"""Which attachments a command is about: its options, and what it fetches by them."""
import argparse
import uuid
from collections.abc import Iterator
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import columns


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that lists of attachments have in common."""
    parser.add_argument('--host', metavar='<host>', type=text,
                        help='Only attachments of this host')
    parser.add_argument('--server', metavar='<server>', type=text,
                        help='Only attachments of this server: its ID, or its name, for which '
                             'Compute is asked')
    parser.add_argument('--state', metavar='<state>', choices=columns.STATES,
                        help=f'Only attachments in this state: {", ".join(columns.STATES)}')
    parser.add_argument('--stuck', action='store_true',
                        help='Only attachments that need attention: in an error state, connected '
                             'but not completed for 10 minutes, or with a last error')
    parser.add_argument('--all-projects', action='store_true',
                        help='Attachments of all projects (administrators only)')


def text(value: str) -> str:
    """An argument that is not empty.

    :raises ArgumentTypeError: it is
    """
    if not value.strip():
        raise argparse.ArgumentTypeError('it must not be empty')
    return value


def identifier(value: str) -> str:
    """An argument that is the ID of an attachment.

    :raises ArgumentTypeError: it is none
    """
    if not is_id(value):
        raise argparse.ArgumentTypeError(
            f'{value!r} is no ID of an attachment; see "openstack volume attachment detail list"')
    return value


def is_id(value: str) -> bool:
    """Whether a word has the form of an ID."""
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True


def client(command: Any) -> api.Api:
    """The client of a command's application."""
    found = command.app.client_manager.blockattach
    assert isinstance(found, api.Api)
    return found


def server_id(service: api.Api, given: str) -> str:
    """The ID of a server; of Compute only a name is asked."""
    return given if is_id(given) else service.server_id(given)


def attachments(service: api.Api, given: argparse.Namespace,
                volume_id: str | None = None) -> Iterator[dict[str, Any]]:
    """The attachments that the options select, newest first, each with its ``age``."""
    query: dict[str, Any] = {
        'host': given.host, 'volume_id': volume_id, 'status': given.state,
        'instance_id': server_id(service, given.server) if given.server else None,
        'all_tenants': 1 if given.all_projects else None}
    for one, now in service.attachments({
            key: value for key, value in query.items() if value is not None}):
        found = {**one, 'age': columns.age(one, now)}
        if not given.stuck or columns.is_stuck(found):
            yield found


def is_narrowed(given: argparse.Namespace) -> bool:
    """Whether the options leave attachments out."""
    return bool(given.host or given.server or given.state or given.stuck)


def positive(value: str) -> int:
    """An argument that is a number of seconds.

    :raises ArgumentTypeError: it is none
    """
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f'{value!r} is no positive number of seconds')
    return int(value)


def all_or_nothing(given: argparse.Namespace, needed: str, others: tuple[str, ...]) -> None:
    """Options that mean nothing without another one.

    :raises CommandError: one is there without it
    """
    if getattr(given, needed) is None:
        for name in others:
            if getattr(given, name):
                raise exceptions.CommandError(
                    f'--{name} describes the host to connect: give --{needed} too, or leave '
                    f'--{name} out to reserve the volume only.')
