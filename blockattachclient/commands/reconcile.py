"""Command ``openstack volume reconcile``."""
import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import faults
from blockattachclient import output
from blockattachclient import selection

# The service reports outcomes as these texts, and has no codes for them.
SETTLED = ('done', 'lost the claim to another process')
"""Outcomes of differences that need no further repair."""
FAILED, SOME_REMAIN = 1, 3


class ReconcileBackends(output.Lister):
    """Repair differences between targets and records now, and list the differences.

    The service also makes these repairs periodically. The command is for administrators.
    The exit status is 3 if a difference remains, and 1 if a backend could not be reconciled.
    """

    status = 0
    """Exit status of the command."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--host', metavar='<host@backend>', type=arguments.text,
                            action='append', default=[],
                            help='Reconcile only this backend (can be repeated, default: all '
                                 'backends that are up)')
        parser.add_argument('--dry-run', action='store_true',
                            help='List the differences without repairing them')
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        # cliff returns 0 for any list that is printed.
        return int(super().run(parsed_args)) or self.status

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Reconcile the backends, and return the column titles and a row for each difference."""
        service = selection.client(self)
        service.require_extension(api.ON_REQUEST)
        found: list[dict[str, Any]] = []
        # A failure of one backend does not prevent the repair of the other backends.
        for host in parsed_args.host or _backends(service):
            answer = service.ask('PUT', '/os-services/reconcile', version=api.ON_REQUEST,
                                 body={'host': host, 'dry_run': parsed_args.dry_run})
            try:
                found += answer.checked().body['findings']
            except exceptions.CommandError as exc:
                self.app.stderr.write(f'Failed to reconcile {host}: {exc}\n')
                self.status = FAILED
        if any(one['outcome'] not in SETTLED for one in found):
            self.status = self.status or SOME_REMAIN
        return columns.titles(columns.FINDINGS), [
            columns.row(columns.FINDINGS, one) for one in found]


def _backends(service: api.Api) -> list[str]:
    """Return the ``host@backend`` or the cluster of each volume service that is up.

    :raises CommandError: no backend is up
    """
    rows = service.ask('GET', '/os-services', query={'binary': 'cinder-volume'}).checked().body
    found = {one['cluster'] or one['host'] for one in rows['services'] if one['state'] == 'up'}
    if not found:
        raise exceptions.CommandError(faults.NO_BACKEND)
    return sorted(found)
