"""Command ``openstack volume attachment direct create``."""
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
from blockattachclient import waiting

CONNECTOR = ('initiator', 'ip', 'multipath', 'mountpoint')
"""Options that are also keys of the connector, besides the host name."""
HIDDEN = '***'
_NOTHING_MADE = ('Dry run: no attachment was created. Without --dry-run, this attachment would be '
                 'created.\n')
_FAILED = ('error_attaching', 'error_detaching', 'detaching')


class CreateAttachment(output.ShowOne):
    """Create an attachment without Compute.

    Without --host, the volume is only reserved. With --host and --initiator, the host is granted
    access, and the output contains the connection information. The CHAP password is masked unless
    --show-password is given. Run "openstack volume attachment complete" to mark the volume as in
    use. With --dry-run, no attachment is created, and the output shows the attachment that would
    be created.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volume', metavar='<volume>', type=arguments.text,
                            help='Volume to attach (name or ID)')
        parser.add_argument('--server', metavar='<server>', type=arguments.text,
                            help='Server of the attachment: the ID, which is not checked, or '
                                 'the name, which is looked up in Compute')
        parser.add_argument('--mode', choices=('rw', 'ro'),
                            help='Access mode (default: rw)')
        parser.add_argument('--host', metavar='<host>', type=arguments.text,
                            help='Name of the host to connect')
        parser.add_argument('--initiator', metavar='<initiator>', type=arguments.text,
                            help='IQN of the initiator of the host')
        parser.add_argument('--ip', metavar='<ip>', type=arguments.address,
                            help='IP address of the host')
        parser.add_argument('--mountpoint', metavar='<mountpoint>', type=arguments.text,
                            help='Device name of the volume, such as /dev/vdb')
        parser.add_argument('--multipath', action='store_true',
                            help='The host supports multipath')
        parser.add_argument('--show-password', action='store_true',
                            help='Print the CHAP password of the host instead of ***')
        parser.add_argument('--dry-run', action='store_true',
                            help='Do not create the attachment, but show the attachment that '
                                 'would be created, or why the request would be rejected')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[Any]]:
        arguments.all_or_nothing(parsed_args, 'host', CONNECTOR)
        service = selection.client(self)
        # A service without the extension would ignore the dry run and create the attachment.
        service.require_extension(api.EXPLAINED if parsed_args.dry_run else api.FIRST)
        wanted = _wanted(service, parsed_args)
        waiter = waiting.Waiter(parsed_args, self.app.stderr)
        if parsed_args.dry_run:
            shown = _tried(service, waiter, wanted)
            self.app.stderr.write(_NOTHING_MADE)
            return columns.titles(columns.DRY_RUN), columns.row(columns.DRY_RUN, shown)
        made = waiting.create(service, waiter, wanted)
        if parsed_args.wait:
            made = _outcome(service, waiter, made['id'], 'connector' in wanted)
        if not parsed_args.show_password:
            made = {**made, 'connection_info': {
                key: HIDDEN if key in initiator.SECRETS else value
                for key, value in (made['connection_info'] or {}).items()}}
        return columns.titles(columns.SHOW), columns.row(columns.SHOW, made)


def _tried(service: api.Api, waiter: waiting.Waiter, wanted: dict[str, Any]) -> dict[str, Any]:
    """Send the request as a dry run, and return the attachment that would be created.

    :raises CommandError: the request would be rejected
    """
    answer = waiter.answer('dry run', lambda seconds: service.ask(
        'POST', '/attachments', query={'dry_run': 'true'}, body={'attachment': wanted},
        seconds=seconds, version=api.EXPLAINED)).checked()
    return {**answer.body['attachment'], 'made': False}


def _wanted(service: api.Api, given: argparse.Namespace) -> dict[str, Any]:
    """Return the attachment that the arguments describe, for the body of the request."""
    wanted: dict[str, Any] = {'volume_uuid': service.volume(given.volume).id}
    if given.server:
        wanted['instance_uuid'] = selection.server_id(service, given.server)
    if given.mode:
        wanted['mode'] = given.mode
    if given.host:
        described = {name: getattr(given, name) for name in CONNECTOR if getattr(given, name)}
        wanted['connector'] = {'host': given.host, **described}
    return wanted


def _outcome(service: api.Api, waiter: waiting.Waiter, attachment_id: str,
             connected: bool) -> dict[str, Any]:
    """Wait until an attachment is created, and return the attachment.

    :param connected: True to wait until the host is connected
    :raises CommandError: the attachment has failed or was deleted, or the timeout has expired
    """
    subject = f'attachment {attachment_id}'
    shown: dict[str, Any] = {}

    def look() -> str | None:
        answer = waiter.answer(subject, lambda seconds: service.ask(
            'GET', api.attachment_path(attachment_id), seconds=seconds))
        if answer.status == 404:
            raise exceptions.CommandError(
                f'{subject} no longer exists, because the request was rejected or the attachment '
                'was deleted. Check the messages with "openstack volume message list".')
        shown.clear()
        shown.update(answer.checked().body['attachment'])
        if shown['status'] in _FAILED:
            raise exceptions.CommandError(
                f'{subject} is {shown["status"]}: {shown["last_error"] or "unknown reason"}. '
                'Delete the attachment with "openstack volume attachment direct delete '
                f'{attachment_id}" and create another one.')
        done = shown['attached_at'] if connected else True
        return None if done else str(shown['status'])

    waiter.until(subject, look)
    waiter.say(subject, f'{shown["status"]}, connected' if connected else shown['status'])
    return shown
