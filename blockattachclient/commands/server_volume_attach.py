"""Command ``openstack server volume attach``."""
import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import servers
from blockattachclient import waiting


class AttachVolume(output.ShowOne):
    """Attach a volume to a server, read-only or read-write.

    The stock command "openstack server add volume" has no option for the access mode.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='<server>', type=arguments.text,
                            help='Server (name or ID)')
        parser.add_argument('volume', metavar='<volume>', type=arguments.text,
                            help='Volume to attach (name or ID)')
        parser.add_argument('--attach-mode', choices=('rw', 'ro'),
                            help='Access mode of the server (default: rw)')
        parser.add_argument('--device', metavar='<device>', type=arguments.text,
                            help='Device name on the server')
        parser.add_argument('--delete-on-termination', action='store_true',
                            help='Delete the volume when the server is deleted')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[Any]]:
        service = selection.client(self)
        compute = servers.Servers(service)
        compute.require_modes()
        server = compute.find(parsed_args.server)
        wanted: dict[str, Any] = {'volumeId': service.volume(parsed_args.volume).id}
        if parsed_args.attach_mode:
            wanted['attach_mode'] = parsed_args.attach_mode
        if parsed_args.device:
            wanted['device'] = parsed_args.device
        if parsed_args.delete_on_termination:
            wanted['delete_on_termination'] = True
        made = compute.attach(server['id'], wanted)
        if parsed_args.wait:
            waiter = waiting.Waiter(parsed_args, self.app.stderr)
            waiter.until(f'volume {wanted["volumeId"]}', lambda: _state(
                service, compute, server['id'], wanted['volumeId']))
        return columns.titles(columns.SERVER_VOLUME), columns.row(columns.SERVER_VOLUME, made)


def _state(service: api.Api, compute: servers.Servers, server_id: str,
           volume_id: str) -> str | None:
    """Return ``attaching``, or None if the volume is attached to the server.

    :raises CommandError: the volume was not attached, and is no longer reserved
    """
    if all(one['volumeId'] != volume_id for one in compute.volumes(server_id)):
        raise exceptions.CommandError(
            f'Volume {volume_id} was not attached and is no longer reserved. List the actions '
            f'with "openstack server event list {server_id}". As an administrator, show the '
            'reason with "openstack --os-compute-api-version 2.84 server event show '
            f'{server_id} REQUEST".')
    # Compute lists the volume as soon as it is reserved. Block Storage shows an attachment in the
    # volume once it is complete.
    used_by = [one.get('server_id') for one in service.volume(volume_id).attachments]
    return None if server_id in used_by else 'attaching'
