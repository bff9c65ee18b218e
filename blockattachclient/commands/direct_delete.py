"""Command ``openstack volume attachment direct delete``."""
import argparse

from osc_lib import exceptions

from blockattachclient import arguments
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import waiting


class DeleteAttachment(output.Command):
    """Delete attachments without Compute.

    With --force, an attachment is deleted regardless of its state and of errors of its backend.
    Make sure that its host no longer uses the volume.
    """

    prints = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('attachments', metavar='<attachment>', nargs='+',
                            type=arguments.identifier, help='ID of an attachment to delete')
        parser.add_argument('--force', action='store_true',
                            help='Delete the attachment regardless of its state and of errors '
                                 'of its backend (administrators only)')
        waiting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete all attachments in the arguments, even if the deletion of one of them fails.

        :raises CommandError: at least one attachment could not be deleted
        """
        service = selection.client(self)
        # A service without the extension would ignore --force.
        service.require_extension()
        failed = 0
        for attachment_id in parsed_args.attachments:
            try:
                waiting.delete(service, waiting.Waiter(parsed_args, self.app.stderr),
                               attachment_id, parsed_args.force)
            except exceptions.CommandError as exc:
                failed += 1
                self.log.error('Failed to delete attachment %s: %s', attachment_id, exc)
        if failed:
            raise exceptions.CommandError(
                f'{failed} of {len(parsed_args.attachments)} attachments failed to delete.')
