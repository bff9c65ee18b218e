"""``openstack volume host session clean``."""
import argparse

from osc_lib import exceptions

from blockattachclient import initiator
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import sessions


class CleanSessions(output.Command):
    """End the iSCSI sessions of this host with volumes of which it has no attachment.

    What is mounted, or a part of another device, is left alone. Needs root, os-brick and
    open-iscsi.

    :ivar this_host: gives the initiator of this host
    :ivar of_kernel: gives its sessions
    """

    this_host = staticmethod(initiator.of_this_host)
    of_kernel = staticmethod(sessions.of_kernel)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--unknown', action='store_true',
                            help='Also sessions with volumes that the service does not show: '
                                 'they are deleted, or of other projects, or of another service')
        parser.add_argument('--all-projects', action='store_true',
                            help='Look at the attachments of all projects (administrators only)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End each; one that cannot be ended keeps no other.

        :raises CommandError: one could not be ended
        """
        host, failed = self.this_host(), 0
        ended = {sessions.STALE, *([sessions.UNKNOWN] if parsed_args.unknown else [])}
        for session, use, _ in selection.sessions(selection.client(self), host, self.of_kernel(),
                                                  parsed_args.all_projects):
            if use not in ended:
                continue
            try:
                for lun in sorted(session.devices) or [0]:
                    host.disconnect(session.connection_info(lun), False)
            except exceptions.CommandError as exc:
                failed += 1
                self.app.stderr.write(f'Session {session.number} stays: {exc}\n')
            else:
                self.app.stdout.write(
                    f'Session {session.number} with {session.target} is ended.\n')
        if failed:
            raise exceptions.CommandError(f'{failed} sessions could not be ended.')
