"""Command ``openstack volume attachment explain``."""
import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import drawing
from blockattachclient import selection


class ExplainAttachment(drawing.DrawnLister):
    """Explain the state of an attachment, or of each attachment of a volume.

    The output is a tree with the record, the state of the target, the operation in progress, the
    next step of the service, and advice. With -f or -c, the output is a list with one attachment
    per row.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('subject', metavar='<attachment-or-volume>', type=arguments.text,
                            help='ID of an attachment, or name or ID of a volume to explain '
                                 'all its attachments')
        parser.add_argument('--all-projects', action='store_true',
                            help='Find a volume of any project (administrators only)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace,
                    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Return the column titles, and a row for each attachment, newest first."""
        service = selection.client(self)
        service.require_extension(api.EXPLAINED)
        volume, answers = _explained(service, parsed_args)
        found = [(answer.body['explanation'], answer.answered_at) for answer in answers]
        nodes = [drawing.explanation(one, now) for one, now in found]
        if volume is not None:
            nodes = [drawing.Node(f'{volume.name or ""} ({volume.id}): {volume.status}'.lstrip(),
                                  nodes or [drawing.Node(drawing.NO_ATTACHMENTS)])]
        self.nodes = nodes
        return columns.titles(columns.EXPLANATION), [
            columns.row(columns.EXPLANATION, _flat(one)) for one, _ in found]


def _explained(service: api.Api, given: argparse.Namespace) -> tuple[Any, list[api.Answer]]:
    """Return the explanations of an attachment, or of all attachments of a volume.

    :returns: the volume, or None if the argument is an attachment, and the explanations
    :raises CommandError: neither an attachment nor a volume has this name or ID
    """
    # An ID can belong to an attachment or to a volume.
    if arguments.is_id(given.subject):
        answer = service.explanation(given.subject)
        if answer.status != 404:
            return None, [answer.checked()]
    volume = _volume(service, given)
    return volume, list(_of_volume(service, given, volume.id))


def _volume(service: api.Api, given: argparse.Namespace) -> Any:
    try:
        return service.volume(given.subject, given.all_projects)
    except exceptions.CommandError as exc:
        if not arguments.is_id(given.subject):
            raise
        raise exceptions.CommandError(
            f'Attachment {given.subject} not found. {exc}') from None


def _of_volume(service: api.Api, given: argparse.Namespace,
               volume_id: str) -> Iterator[api.Answer]:
    query = {'volume_id': volume_id, **({'all_tenants': 1} if given.all_projects else {})}
    for one, _ in service.attachments(query):
        answer = service.explanation(one['id'])
        # With 404, the attachment was deleted after the list was read, and has no history.
        if answer.status != 404:
            yield answer.checked()


def _flat(explanation: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an explanation for a row, by keys of `columns.EXPLANATION`."""
    record, target = explanation['record'], explanation['target']
    return {**(record['last_move'] or {}), **record, **explanation,
            'status': columns.status(record['state']), 'exported': target['exported'],
            'mode_at_target': target['mode'], 'sessions': target['sessions'],
            'not_asked_because': target['reason']}
