"""``openstack volume attachment history``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection


class ListAttachmentHistory(output.Lister):
    """List what happened to an attachment, live or gone: each move, the oldest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('attachment', metavar='<attachment>', type=arguments.identifier,
                            help='ID of the attachment')
        parser.add_argument('--long', action='store_true',
                            help='All columns: also the number of each move (generation)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """The columns and their rows."""
        service = selection.client(self)
        service.require_extension(api.EXPLAINED)
        table = columns.HISTORY_LONG if parsed_args.long else columns.HISTORY
        moves = list(service.history(parsed_args.attachment))
        return columns.titles(table), [columns.row(table, one) for one in moves]
