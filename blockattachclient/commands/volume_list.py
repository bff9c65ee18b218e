"""Command ``openstack volume detail list``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection


class ListVolumes(output.Lister):
    """List volumes with the column Multiattach, newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--multiattach', action='store_true',
                            help='List only multiattach volumes')
        parser.add_argument('--all-projects', action='store_true',
                            help='List volumes of all projects (administrators only)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        query = {**({'multiattach': 'True'} if parsed_args.multiattach else {}),
                 **({'all_tenants': '1'} if parsed_args.all_projects else {})}
        return columns.titles(columns.VOLUMES), [
            columns.row(columns.VOLUMES, {
                **one, 'servers': sorted(attached['server_id'] or attached['host_name'] or ''
                                         for attached in one['attachments'])})
            for one in selection.client(self).listed_volumes(query)]
