"""``openstack volume attachment direct delete``."""
import argparse

from osc_lib import exceptions
from osc_lib.command import command

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import selection
from blockattachclient import waiting


class DeleteAttachment(command.Command):
    """Delete attachments without asking Compute, also against their state.

    With --force an attachment is removed whatever its state is and whatever its backend answers:
    make sure that its host does not use the volume any more.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('attachments', metavar='<attachment>', nargs='+',
                            type=arguments.identifier, help='ID of an attachment to delete')
        parser.add_argument('--force', action='store_true',
                            help='Whatever its state is and whatever its backend answers '
                                 '(administrators only)')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete each; one that cannot be deleted does not keep the others.

        :raises CommandError: one could not be deleted
        """
        service = selection.client(self)
        # Another service would delete without force.
        service.require_extension()
        failed = 0
        for attachment_id in parsed_args.attachments:
            try:
                _delete(service, parsed_args, waiting.Waiter(parsed_args, self.app.stderr),
                        attachment_id)
            except exceptions.CommandError as exc:
                failed += 1
                self.log.error('Cannot delete attachment %s: %s', attachment_id, exc)
        if failed:
            raise exceptions.CommandError(
                f'{failed} of {len(parsed_args.attachments)} attachments were not deleted.')


def _delete(service: api.Api, given: argparse.Namespace, waiter: waiting.Waiter,
            attachment_id: str) -> None:
    subject = f'attachment {attachment_id}'
    query = {'force': 'true'} if given.force else {}
    sent = 0

    def ask(seconds: float | None) -> api.Answer:
        nonlocal sent
        sent += 1
        return service.ask('DELETE', api.attachment_path(attachment_id), query=query,
                           seconds=seconds)

    answer = waiter.answer(subject, ask)
    # A request before, whose outcome was unknown, has deleted it.
    if answer.status != 404 or sent == 1:
        answer.checked()
    waiter.say(subject, 'deleted')
