"""Command ``openstack volume backend pool explain``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection


class ExplainPools(output.Lister):
    """List the pools that can take a volume, best first, and why other pools cannot.

    No volume is created. The command is for administrators.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('size', metavar='<size>', type=arguments.positive,
                            help='Size of the volume in GiB')
        parser.add_argument('--type', metavar='<volume-type>', type=arguments.text,
                            help='Volume type (name or ID, default: that of the service)')
        parser.add_argument('--availability-zone', metavar='<availability-zone>',
                            type=arguments.text,
                            help='Availability zone (default: that of the service)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        service = selection.client(self)
        service.require_extension(api.ON_REQUEST)
        wanted = {'size': parsed_args.size, 'volume_type': parsed_args.type,
                  'availability_zone': parsed_args.availability_zone}
        answer = service.ask('GET', '/scheduler-stats/explain_pools', version=api.ON_REQUEST,
                             query={key: value for key, value in wanted.items()
                                    if value is not None}).checked()
        return columns.titles(columns.POOLS), [
            columns.row(columns.POOLS, {**one, 'takes_it': one['refused_by'] is None})
            for one in answer.body['pools']]
