"""Volumes, hosts and attachments as trees of text, and the commands that draw them."""
import argparse
import datetime
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattachclient import columns
from blockattachclient import output


class Branches(NamedTuple):
    """What a tree is drawn with."""

    fork: str
    last: str
    beside: str
    below: str


LINES = Branches('├── ', '└── ', '│   ', '    ')
ASCII = Branches('|-- ', '`-- ', '|   ', '    ')
"""For terminals whose encoding lacks the lines."""

NO_HOST = 'no host yet'
NO_ATTACHMENTS = 'no attachments'
UNDER_WAY = ('connecting', 'disconnecting')
"""States in which the service is at work."""


class Node(NamedTuple):
    """A line, and what hangs on it."""

    text: str
    children: Sequence['Node'] = ()


class DrawnLister(output.Lister):
    """A list that is drawn unless a format or columns are asked for.

    :ivar nodes: what is drawn, which ``take_action`` sets beside the list that it returns
    """

    nodes: Sequence[Node] = ()
    _draws = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The arguments of every list."""
        parser = super().get_parser(prog_name)
        # None until -f is given: then it is drawn.
        parser.set_defaults(formatter=None)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Draw, unless a format or columns are asked for."""
        self._draws = parsed_args.formatter is None and not parsed_args.columns
        parsed_args.formatter = parsed_args.formatter or self.formatter_default
        return super().run(parsed_args)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str],
                       data: Iterable[Sequence[Any]]) -> int:
        """Print the trees or, by the formatter, the list."""
        if not self._draws:
            return super().produce_output(parsed_args, column_names, data)
        out = self.app.stdout
        drawn = branches(getattr(out, 'encoding', None))
        for node in self.nodes:
            for line in lines(node, drawn):
                out.write(f'{line}\n')
        return 0


def branches(encoding: str | None) -> Branches:
    """What an encoding can show."""
    try:
        ''.join(LINES).encode(encoding or 'ascii')
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return LINES


def volume(shown: dict[str, Any], attachments: Sequence[dict[str, Any]]) -> Node:
    """A volume with its hosts, these with their attachments."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for one in attachments:
        hosts.setdefault(one['host'] or NO_HOST, []).append(one)
    name = f'{shown["volume_name"]} ' if shown['volume_name'] else ''
    return Node(f'{name}({shown["volume_id"]}): {shown["volume_status"]}',
                [Node(host, [_attachment(one) for one in hosts[host]]) for host in sorted(hosts)]
                or [Node(NO_ATTACHMENTS)])


def _attachment(one: dict[str, Any]) -> Node:
    server = f'server {one["instance"]}' if one['instance'] else 'no server'
    mode = one['mode'] or 'no mode'
    if one['mode_enforced_by']:
        mode += f' enforced by {one["mode_enforced_by"]}'
    facts = [server, mode, one['status'], *(
        [columns.in_words(one['age'])] if one['age'] is not None else [])]
    children = [Node(f'attachment {one["id"]}')]
    if one['last_error']:
        children.append(Node(f'last error: {one["last_error"]}'))
    return Node(', '.join(facts), children)


def explanation(found: dict[str, Any], now: datetime.datetime) -> Node:
    """Why an attachment is as it is, as the API explains it."""
    record = found['record']
    shared = ', '.join(found['session_shared_with'])
    children = [
        Node(f'volume {found["volume_id"]}'),
        Node(f'record: {_record(record)}', [Node(f'last error: {record["last_error"]}')]
             if record['last_error'] else ()),
        Node(f'target: {_target(found)}'),
        Node(f'session: shared with {shared}' if shared else 'session: not shared'),
        Node(_moved(record, now)),
        Node(f'found: {found["found"]}'),
        Node(f'next: {found["next"]}')]
    if found['advice']:
        children.append(Node('advice', [Node(one) for one in found['advice']]))
    status = columns.status(record['state'])
    step = '' if status == record['state'] else f' ({record["state"]})'
    return Node(f'attachment {found["attachment_id"]}: {status}{step}', children)


def _record(record: dict[str, Any]) -> str:
    if not record['host']:
        return f'{record["mode"] or "no mode"}, {NO_HOST}'
    return (f'{record["mode"] or "no mode"}, host {record["host"]} '
            f'({record["initiator"] or "no initiator"})')


def _target(found: dict[str, Any]) -> str:
    target = found['target']
    on = f' on {found["backend"]}' if found['backend'] else ''
    if target['reason']:
        return f'not queried{on} ({target["reason"]})'
    if target['exported'] is None:
        return f'nothing to query{on}: {NO_HOST}'
    if not target['exported']:
        return f'does not export the volume{on}'
    if target['mode'] is None:
        return f'exports the volume{on}, grants the host no access'
    return f'exports the volume{on}, grants the host {target["mode"]}, sessions: ' \
           f'{target["sessions"]}'


def _moved(record: dict[str, Any], now: datetime.datetime) -> str:
    """What the service does with it, since when and by which request; or did last."""
    move = record['last_move']
    is_under_way = record['state'] in UNDER_WAY
    if move is None:
        return 'in progress: since an unknown time' if is_under_way else 'in progress: nothing'
    ago = columns.in_words(columns.seconds_since(move['at'], now))
    who = f'by {move["user_id"] or columns.THE_SERVICE}, request {move["request_id"] or "none"}'
    if is_under_way:
        return f'in progress: {move["event"]} since {move["at"]} ({ago}), {who}'
    return f'in progress: nothing, last {move["event"]} at {move["at"]} ({ago} ago), {who}'


def lines(node: Node, drawn: Branches) -> Iterator[str]:
    """The lines of a tree, without their ends."""
    yield printable(node.text)
    yield from _below(node, drawn, '')


def _below(node: Node, drawn: Branches, before: str) -> Iterator[str]:
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield before + (drawn.last if last else drawn.fork) + printable(child.text)
        yield from _below(child, drawn, before + (drawn.below if last else drawn.beside))


def printable(text: str) -> str:
    """A text without what would move a terminal's cursor or change its colours."""
    return ''.join(one if one.isprintable() else '?' for one in text)
