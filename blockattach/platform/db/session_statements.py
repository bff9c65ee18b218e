"""MariaDB's own prepared statements: a text is parsed once on a connection, then called by name.

Half of what MariaDB takes for a statement of fifty columns goes into its text. None of its drivers
speaks the binary protocol, but ``PREPARE`` and ``EXECUTE ... USING`` are statements as well, which
any of them sends; MySQL takes no values in the second, so there everything is sent as before.

What is prepared belongs to the connection, and is gone with it.
"""
import hashlib
from collections.abc import Mapping
from collections.abc import MutableMapping
from typing import Any
from typing import NamedTuple

MOST = 64
"""Of one connection. The server holds 16,382 of all its connections, by default
(``max_prepared_stmt_count``); where it takes no more, texts are sent again."""
_KEY = 'blockattach_prepared'
_ENOUGH_PREPARED, _NOT_PREPARED = 1461, 1243
_USED_ONCE, _PREPARED = False, True


class Named(NamedTuple):
    """A statement, ready to be prepared.

    :ivar name: of this text and no other
    :ivar text: with a question mark for each value
    :ivar call: its call, in the driver's form
    :ivar order: names of the values by position
    """

    name: str
    text: str
    call: str
    order: tuple[str, ...]


def named(text: str, order: tuple[str, ...] | None) -> Named:
    """
    :param text: with ``%s`` for each value, or ``%(name)s`` where ``order`` is None, as drivers
        take it
    """
    if order is None:
        positions = _Positions('?')
        asked, order = text % positions, tuple(positions.names)
    else:
        asked = text % (('?',) * len(order))
    name = name_of(text)
    using = f' USING {", ".join(["%s"] * len(order))}' if order else ''
    return Named(name, asked, f'EXECUTE {name}{using}', order)


def positional(text: str, order: tuple[str, ...] | None) -> tuple[str, tuple[str, ...]]:
    """A text that takes its values by position, and their names.

    :param text: as for `named`
    """
    if order is not None:
        return text, order
    positions = _Positions('%s')
    return text.replace('%%', '%%%%') % positions, tuple(positions.names)


def name_of(text: str) -> str:
    """What a statement is called by."""
    return f'statement_{hashlib.sha256(text.encode()).hexdigest()[:16]}'


class _Positions(dict[str, str]):
    """Writes down which names are asked for."""

    def __init__(self, mark: str) -> None:
        """
        :param mark: in the place of each
        """
        super().__init__()
        self._mark = mark
        self.names: list[str] = []

    def __missing__(self, name: str) -> str:
        self.names.append(name)
        return self._mark


def allow(info: MutableMapping[str, Any]) -> None:
    """From now on statements are prepared on this connection.

    :param info: what is remembered of the connection while it is open
    """
    info[_KEY] = {}


def execute(info: MutableMapping[str, Any], cursor: Any, statement: Named,
            values: Mapping[str, Any], error: type[Exception]) -> bool:
    """Call a statement, from its second time on a connection on; False: send its text.

    :param values: by name, as they are stored
    :param error: what the driver raises; whatever is wrong with the statement is raised
    """
    known = info.get(_KEY)
    if known is None:
        return False
    state = known.get(statement.name)
    try:
        if state is not _PREPARED:
            if state is None or sum(known.values()) >= MOST:
                known[statement.name] = _USED_ONCE
                return False
            cursor.execute(f'PREPARE {statement.name} FROM %s', (statement.text,))
            known[statement.name] = _PREPARED
        cursor.execute(statement.call, [values[name] for name in statement.order])
        return True
    except error as exc:
        if exc.args and exc.args[0] in (_ENOUGH_PREPARED, _NOT_PREPARED):
            # The second: something between us and the server lends one connection to several.
            del info[_KEY]
            return False
        raise
