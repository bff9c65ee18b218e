"""Command ``openstack volume host session clean``."""
import argparse

from osc_lib import exceptions

from blockattachclient import initiator
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import sessions


class CleanSessions(output.Command):
    """End the iSCSI sessions of this host that serve no attachment.

    Sessions whose devices are mounted or part of another device are kept, and reported as errors.
    The command must run as root, and requires os-brick and open-iscsi.
    """

    this_host = staticmethod(initiator.of_this_host)
    """Function that returns the initiator of this host. Tests replace the function."""
    of_kernel = staticmethod(sessions.of_kernel)
    """Function that returns the iSCSI sessions of this host. Tests replace the function."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--unknown', action='store_true',
                            help='Also end sessions of volumes that the service does not show, '
                                 'because the volumes are deleted or belong to other projects or '
                                 'to another service')
        parser.add_argument('--all-projects', action='store_true',
                            help='Consider the attachments of all projects (administrators only)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End the sessions that serve no attachment, even if one of them cannot be ended.

        Sessions of volumes that the service does not show are kept, unless ``--unknown`` is given.

        :raises CommandError: at least one session could not be ended
        """
        host, failed = self.this_host(), 0
        ended = {sessions.STALE, *([sessions.UNKNOWN] if parsed_args.unknown else [])}
        for session, use, _ in selection.sessions(selection.client(self), host, self.of_kernel(),
                                                  parsed_args.all_projects):
            if use not in ended:
                continue
            try:
                # Without multipath, so that a device below a multipath device counts as in use and
                # is kept. A session without devices is ended with any LUN.
                for lun in sorted(session.devices) or [0]:
                    host.disconnect(session.connection_info(lun), False)
            except exceptions.CommandError as exc:
                failed += 1
                self.app.stderr.write(f'Failed to end session {session.number}: {exc}\n')
            else:
                self.app.stdout.write(
                    f'Session {session.number} with {session.target} ended.\n')
        if failed:
            raise exceptions.CommandError(f'Failed to end {failed} sessions.')
