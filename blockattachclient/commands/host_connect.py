"""Command ``openstack volume host connect``."""
import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import initiator
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import undoing
from blockattachclient import waiting

_ISCSI = 'iscsi'


class ConnectVolume(output.ShowOne):
    """Connect a volume to this host without Compute, and show its device.

    The command creates an attachment, connects the volume with os-brick, and marks the volume as
    in use. If a step fails, the completed steps are rolled back. The command must run as root, and
    requires os-brick and open-iscsi.
    """

    this_host = staticmethod(initiator.of_this_host)
    """Function that returns the initiator of this host. Tests replace the function."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volume', metavar='<volume>', type=arguments.text,
                            help='Volume to connect (name or ID)')
        parser.add_argument('--mode', choices=('rw', 'ro'),
                            help='Access mode (default: rw)')
        parser.add_argument('--ip', metavar='<ip>', type=arguments.address,
                            help='IP address of this host, to be shown in the attachment')
        parser.add_argument('--multipath', action='store_true',
                            help='Use all paths with multipathd, which must be running')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[Any]]:
        """Create an attachment, connect the volume, and complete the attachment.

        :returns: column titles and their values
        """
        host = self.this_host()
        service = selection.client(self)
        service.require_extension()
        volume = service.volume(parsed_args.volume)
        if volume.is_encrypted:
            raise exceptions.CommandError(
                f'Volume {volume.id} is encrypted, which this command does not support. Attach '
                'the volume to a server with "openstack server add volume".')
        wanted = {'volume_uuid': volume.id,
                  'connector': host.properties(parsed_args.ip, parsed_args.multipath)}
        if parsed_args.mode:
            wanted['mode'] = parsed_args.mode
        waiter = waiting.Waiter(parsed_args, self.app.stderr)
        with undoing.Undo(self.app.stderr) as undo:
            made = _attached(service, waiter, undo, wanted)
            device = _connected(host, undo, made, parsed_args.multipath)
            waiter.answer(f'attachment {made["id"]}', lambda seconds: service.ask(
                'POST', f'{api.attachment_path(made["id"])}/action', body={'os-complete': None},
                seconds=seconds)).checked()
        return columns.titles(columns.CONNECTED), columns.row(
            columns.CONNECTED, {**made, 'device': device})


def _attached(service: api.Api, waiter: waiting.Waiter, undo: undoing.Undo,
              requested: dict[str, Any]) -> dict[str, Any]:
    """Create an attachment that grants this host access, and register the undoing of this step.

    :raises CommandError: the request is rejected, or the volume is not offered over iSCSI
    """
    made = waiting.create(service, waiter, requested)
    undo.by(f'deletion of attachment {made["id"]}',
            lambda: waiting.delete(service, waiter, made['id']),
            'Delete the attachment with "openstack volume attachment direct delete '
            f'{made["id"]}".')
    offered = made['connection_info'].get('driver_volume_type')
    if offered != _ISCSI:
        raise exceptions.CommandError(
            f'Attachment {made["id"]} is {made["status"]} and provides '
            f'{offered or "no connection"}, but this command supports only iSCSI.')
    return made


def _connected(host: initiator.Initiator, undo: undoing.Undo, attachment: dict[str, Any],
               multipath: bool) -> str:
    """Connect the volume to this host, and return the path of its device.

    Undoing the connection is registered, unless other attachments share the session.

    :raises CommandError: the volume cannot be connected
    """
    info = attachment['connection_info']
    device = host.connect(info, multipath)
    # A session that other attachments share existed before, and must stay.
    if not attachment['shared_connections']:
        undo.by(f'disconnection of {device}', lambda: host.disconnect(info, multipath),
                f'Check "iscsiadm -m session", and log out of {info["target_iqn"]}.')
    return device
