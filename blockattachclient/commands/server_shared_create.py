"""Command ``openstack server shared create``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import servers
from blockattachclient import waiting

FAILED = 1


class CreateServers(output.Lister):
    """Create servers that share volumes, each volume read-only or read-write.

    The servers boot from the first volume. With --wait, the exit status is 1 if a server failed to
    build. The other servers are kept.
    """

    status = 0
    """Exit status of the command."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        # cliff returns 0 for any list that is printed.
        return int(super().run(parsed_args)) or self.status

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', type=arguments.text,
                            help='Name of the server, or prefix of the names of several servers')
        parser.add_argument('--flavor', metavar='<flavor>', required=True, type=arguments.text,
                            help='Flavor (name or ID)')
        parser.add_argument('--volume', metavar='<volume>[:<mode>[,<mode>...]]', action='append',
                            required=True, type=arguments.volume_with_modes,
                            help='Volume (name or ID) and access modes, ro or rw: one mode for '
                                 'all servers, or one for each server (can be repeated, default '
                                 'mode: that of --attach-mode)')
        parser.add_argument('--attach-mode', choices=('rw', 'ro'), default='rw',
                            help='Access mode of volumes without a mode (default: rw)')
        parser.add_argument('--count', metavar='<number>', type=arguments.positive, default=1,
                            help='Number of servers (default: 1)')
        parser.add_argument('--host', metavar='<host>', type=arguments.text,
                            help='Host of the servers (administrators only)')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        service = selection.client(self)
        compute = servers.Servers(service)
        compute.require_modes()
        wanted: dict[str, Any] = {
            'name': parsed_args.name, 'imageRef': '', 'networks': 'none',
            'flavorRef': compute.flavor(parsed_args.flavor),
            'min_count': parsed_args.count, 'max_count': parsed_args.count,
            'block_device_mapping_v2': list(_mapped(service, parsed_args))}
        if parsed_args.host:
            wanted['host'] = parsed_args.host
        reservation_id = compute.create(wanted)
        made = compute.of_reservation(reservation_id)
        if parsed_args.wait:
            waiter = waiting.Waiter(parsed_args, self.app.stderr)
            waiter.until(f'reservation {reservation_id}', lambda: _under_way(
                compute.of_reservation(reservation_id)))
            made = compute.of_reservation(reservation_id)
            self.status = FAILED if any(one['status'] == 'ERROR' for one in made) else 0
        return columns.titles(columns.SERVERS), [
            columns.row(columns.SERVERS, {**one, 'fault': (one.get('fault') or {}).get('message')})
            for one in made]


def _mapped(service: api.Api, given: argparse.Namespace) -> Iterable[dict[str, Any]]:
    for number, (name, modes) in enumerate(given.volume):
        wanted = ({'attach_modes': modes} if len(modes) > 1 else
                  {'attach_mode': (modes or [given.attach_mode])[0]})
        yield {'uuid': service.volume(name).id, 'source_type': 'volume',
               'destination_type': 'volume', 'boot_index': 0 if number == 0 else -1, **wanted}


def _under_way(created: list[dict[str, Any]]) -> str | None:
    building = sum(server['status'] == 'BUILD' for server in created)
    return f'{len(created) - building} of {len(created)} servers ready' if building else None
