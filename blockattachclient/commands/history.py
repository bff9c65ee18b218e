"""Command ``openstack volume attachment history``."""
import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection


class ListAttachmentHistory(output.Lister):
    """List the history of an attachment, or of all attachments of a volume, oldest first.

    Deleted attachments are included as long as the service keeps their history.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('subject', metavar='<attachment-or-volume>', type=arguments.text,
                            help='ID of an attachment, or name or ID of a volume to list all its '
                                 'attachments. A deleted volume must be given by its ID')
        parser.add_argument('--all-projects', action='store_true',
                            help='Find a volume of any project (administrators only)')
        parser.add_argument('--long', action='store_true',
                            help='Show the additional column Generation, which numbers the '
                                 'changes of an attachment')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        service = selection.client(self)
        service.require_extension(api.EXPLAINED)
        table: tuple[columns.Column, ...] = (
            columns.HISTORY_LONG if parsed_args.long else columns.HISTORY)
        moves = service.history(parsed_args.subject) if arguments.is_id(
            parsed_args.subject) else None
        # If no attachment has this ID, the ID may belong to a volume.
        if moves is None:
            service.require_extension(api.OF_VOLUME)
            table = columns.HISTORY_OF_VOLUME_LONG if parsed_args.long \
                else columns.HISTORY_OF_VOLUME
            moves = _of_volume(service, parsed_args)
        return columns.titles(table), [columns.row(table, one) for one in moves]


def _of_volume(service: api.Api, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the history of all attachments of the volume in the arguments.

    :raises CommandError: neither the volume nor its history exists
    """
    if arguments.is_id(given.subject):
        # A deleted volume is not shown anymore, but may have a history.
        found = service.history_of_volume(given.subject, given.all_projects)
        if found:
            return found
    try:
        volume = service.volume(given.subject, given.all_projects)
    except exceptions.CommandError as exc:
        if not arguments.is_id(given.subject):
            raise
        raise exceptions.CommandError(f'Attachment {given.subject} not found. {exc}') from None
    return service.history_of_volume(volume.id, given.all_projects)
