"""Drawing of volumes, hosts and attachments as text trees, and the base class of the commands."""
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
    """Prefixes of the lines of a tree.

    :ivar fork: prefix of a node that is followed by a sibling
    :ivar last: prefix of the last node among its siblings
    :ivar beside: prefix of the lines below a node that is followed by a sibling
    :ivar below: prefix of the lines below the last node
    """

    fork: str
    last: str
    beside: str
    below: str


LINES = Branches('├── ', '└── ', '│   ', '    ')
ASCII = Branches('|-- ', '`-- ', '|   ', '    ')
"""Prefixes for terminals whose encoding lacks box-drawing characters."""

NO_HOST = 'no host yet'
NO_ATTACHMENTS = 'no attachments'
UNDER_WAY = ('connecting', 'disconnecting')
"""States in which the service is working on an attachment."""


class Node(NamedTuple):
    """Node of a tree, which is one line of text, with its child nodes."""

    text: str
    children: Sequence['Node'] = ()


class DrawnLister(output.Lister):
    """Base class of commands that draw a tree, unless a format or columns are requested.

    :ivar nodes: trees to draw. ``take_action`` sets them, and returns a list for other formats
    """

    nodes: Sequence[Node] = ()
    _draws = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # The formatter stays None unless -f is given, and the tree is drawn then.
        parser.set_defaults(formatter=None)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Draw the trees, or print the list if a format or columns are requested."""
        self._draws = parsed_args.formatter is None and not parsed_args.columns
        parsed_args.formatter = parsed_args.formatter or self.formatter_default
        return super().run(parsed_args)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str],
                       data: Iterable[Sequence[Any]]) -> int:
        if not self._draws:
            return super().produce_output(parsed_args, column_names, data)
        out = self.app.stdout
        drawn = branches(getattr(out, 'encoding', None))
        for node in self.nodes:
            for line in lines(node, drawn):
                out.write(f'{line}\n')
        return 0


def branches(encoding: str | None) -> Branches:
    """Return the tree prefixes for an encoding: line-drawing characters if it has them, or ASCII.
    """
    try:
        ''.join(LINES).encode(encoding or 'ascii')
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return LINES


def volume(shown: dict[str, Any], attachments: Sequence[dict[str, Any]]) -> Node:
    """Return the tree of a volume, with its hosts and their attachments as child nodes."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for one in attachments:
        hosts.setdefault(one['host'] or NO_HOST, []).append(one)
    name = f'{shown["volume_name"]} ' if shown['volume_name'] else ''
    return Node(f'{name}({shown["volume_id"]}): {shown["volume_status"]}',
                [Node(host, [_attachment(one) for one in hosts[host]]) for host in sorted(hosts)]
                or [Node(NO_ATTACHMENTS)])


def _attachment(shown: dict[str, Any]) -> Node:
    server = f'server {shown["instance"]}' if shown['instance'] else 'no server'
    mode = shown['mode'] or 'no mode'
    if shown['mode_enforced_by']:
        mode += f' enforced by {shown["mode_enforced_by"]}'
    facts = [server, mode, shown['status'], *(
        [columns.in_words(shown['age'])] if shown['age'] is not None else [])]
    children = [Node(f'attachment {shown["id"]}')]
    if shown['last_error']:
        children.append(Node(f'last error: {shown["last_error"]}'))
    return Node(', '.join(facts), children)


def explanation(found: dict[str, Any], now: datetime.datetime) -> Node:
    """Return the tree that shows the explanation of an attachment."""
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
    """Return the line about the operation in progress, or about the last operation."""
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
    """Yield the lines of a tree, without line ends."""
    yield printable(node.text)
    yield from _below(node, drawn, '')


def _below(node: Node, drawn: Branches, before: str) -> Iterator[str]:
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield before + (drawn.last if last else drawn.fork) + printable(child.text)
        yield from _below(child, drawn, before + (drawn.below if last else drawn.beside))


def printable(text: str) -> str:
    """Return a text with control characters, which terminals would interpret, replaced by ``?``.
    """
    return ''.join(one if one.isprintable() else '?' for one in text)
