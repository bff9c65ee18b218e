"""A tree of volumes, hosts and attachments as text."""
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattachclient import columns


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


class Node(NamedTuple):
    """A line, and what hangs on it."""

    text: str
    children: Sequence['Node'] = ()


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
