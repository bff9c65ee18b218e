"""Command ``openstack volume host session list``."""
import argparse
from collections.abc import Iterable
from typing import Any

from blockattachclient import columns
from blockattachclient import initiator
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import sessions


class ListSessions(output.Lister):
    """List the iSCSI sessions of this host with volumes, and the attachments that they serve.

    The command must run as root, and requires os-brick and open-iscsi.
    """

    this_host = staticmethod(initiator.of_this_host)
    """Function that returns the initiator of this host. Tests replace the function."""
    of_kernel = staticmethod(sessions.of_kernel)
    """Function that returns the iSCSI sessions of this host. Tests replace the function."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--stale', action='store_true',
                            help='List only sessions that serve no attachment')
        parser.add_argument('--all-projects', action='store_true',
                            help='Consider the attachments of all projects (administrators only)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        found = selection.sessions(selection.client(self), self.this_host(), self.of_kernel(),
                                   parsed_args.all_projects)
        return columns.titles(columns.SESSIONS), [
            columns.row(columns.SESSIONS, {
                **session._asdict(), 'devices': sorted(session.devices.values()), 'use': use,
                'attachments': served})
            for session, use, served in found
            if not parsed_args.stale or use != sessions.USED]
