"""Command ``openstack volume host disconnect``."""
import argparse
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import initiator
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import waiting


class DisconnectVolume(output.Command):
    """Disconnect a volume from this host and delete the attachment, without Compute.

    Attachments of servers are not changed. The command must run as root, and requires os-brick and
    open-iscsi.
    """

    prints = False
    this_host = staticmethod(initiator.of_this_host)
    """Function that returns the initiator of this host. Tests replace the function."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volume', metavar='<volume>', type=arguments.text,
                            help='Volume to disconnect (name or ID)')
        parser.add_argument('--attachment', metavar='<attachment>', type=arguments.identifier,
                            help='ID of the attachment, if this host has several attachments of '
                                 'the volume')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Disconnect the volume, and then delete the attachment.

        In this order, this host is never connected without an attachment.

        :raises CommandError: the volume cannot be disconnected, or the attachment cannot be
            deleted
        """
        host = self.this_host()
        service = selection.client(self)
        service.require_extension()
        volume = service.volume(parsed_args.volume)
        one = _chosen(service, volume.id, host.properties(), parsed_args.attachment)
        if one['shared_connections']:
            self.app.stderr.write(
                'Keeping the session, which other attachments of this host use: '
                f'{", ".join(one["shared_connections"])}.\n')
        elif one['connection_info']:
            host.disconnect(one['connection_info'], bool(one['connector'].get('multipath')))
        try:
            waiting.delete(service, waiting.Waiter(parsed_args, self.app.stderr), one['id'])
        except exceptions.CommandError as exc:
            raise exceptions.CommandError(
                f'Attachment {one["id"]} was not deleted, but this host no longer uses the '
                f'attachment. Repeat the command. {exc}') from None


def _chosen(service: api.Api, volume_id: str, own: dict[str, Any],
            attachment_id: str | None) -> dict[str, Any]:
    """Return the attachment of a volume to this host that is not for a server.

    :param own: connector of this host
    :param attachment_id: id of the attachment, or None if only one attachment should match
    :raises CommandError: no attachment or several attachments match
    """
    here = [one for one, _ in service.attachments({'volume_id': volume_id, 'host': own['host']})
            if initiator.is_same(one['connector'], own)]
    if attachment_id is not None:
        here = [one for one in here if one['id'] == attachment_id]
    # Compute connects and disconnects the volumes of servers on this host.
    found = [one for one in here if one['instance'] is None]
    if len(found) == 1:
        return found[0]
    if found:
        raise exceptions.CommandError(
            f'This host has several attachments of the volume. Specify one with --attachment: '
            f'{", ".join(one["id"] for one in found)}.')
    if here:
        raise exceptions.CommandError(
            f'On this host, only server {here[0]["instance"]} uses the volume. Detach the volume '
            'from the server with "openstack server remove volume".')
    raise exceptions.CommandError(
        f'This host ({own["host"]}, {own["initiator"]}) has no matching attachment of the '
        f'volume. Check with "openstack volume attachment tree {volume_id}".')
