"""Command ``openstack volume attachment tree``."""
import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import drawing
from blockattachclient import selection


class ShowAttachmentTree(drawing.DrawnLister):
    """Show volumes with the hosts and servers that use them as a tree.

    With -f or -c, the output is a list with one attachment per row.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volumes', metavar='<volume>', nargs='*', type=arguments.text,
                            help='Show only these volumes (name or ID), including volumes '
                                 'without attachments unless attachments are filtered (default: '
                                 'all volumes with attachments)')
        selection.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Return the column titles, and a row for each attachment, by volume, host and age."""
        found = list(_volumes(selection.client(self), parsed_args))
        self.nodes = [drawing.volume(shown, attachments) for shown, attachments in found]
        return columns.titles(columns.TREE), [
            columns.row(columns.TREE, {**shown, **one})
            for shown, attachments in found for one in attachments]


def _volumes(service: api.Api, given: argparse.Namespace,
             ) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the volumes in the order of their names, each with its attachments."""
    asked = {str(one.id): one for one in (service.volume(name, given.all_projects)
                                          for name in given.volumes)}
    by_volume: dict[str, list[dict[str, Any]]] = {volume_id: [] for volume_id in asked}
    for volume_id in asked or (None,):
        for one in selection.attachments(service, given, volume_id):
            by_volume.setdefault(one['volume_id'], []).append(one)
    if not asked:
        asked = service.volumes(by_volume, given.all_projects)
    elif selection.is_narrowed(given):
        by_volume = {volume_id: found for volume_id, found in by_volume.items() if found}
    # A volume that was deleted after its attachments were read has neither a name nor a status.
    shown: list[dict[str, Any]] = [
        {'volume_id': volume_id, 'volume_name': getattr(asked.get(volume_id), 'name', None),
         'volume_status': getattr(asked.get(volume_id), 'status', 'deleted')}
        for volume_id in by_volume]
    for volume in sorted(shown, key=lambda one: (one['volume_name'] or '', one['volume_id'])):
        yield volume, sorted(by_volume[volume['volume_id']], key=lambda one: (
            one['host'] or '', -(one['age'] or 0), one['id']))
