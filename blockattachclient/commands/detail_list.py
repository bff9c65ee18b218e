"""Command ``openstack volume attachment detail list``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection


class ListAttachmentDetails(output.Lister):
    """List attachments with their hosts and modes, by host, server, volume or state."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--volume', metavar='<volume>', type=arguments.text,
                            help='Show only attachments of this volume (name or ID)')
        selection.add_options(parser)
        parser.add_argument('--long', action='store_true',
                            help='Show additional columns: mode enforcement, mount point, '
                                 'project, shared connections and last error')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Return the column titles, and a row for each attachment, newest first."""
        service = selection.client(self)
        table = columns.LIST_LONG if parsed_args.long else columns.LIST
        volume_id = None
        if parsed_args.volume:
            volume_id = service.volume(parsed_args.volume, parsed_args.all_projects).id
        found = list(selection.attachments(service, parsed_args, volume_id))
        return columns.titles(table), [columns.row(table, one) for one in found]
