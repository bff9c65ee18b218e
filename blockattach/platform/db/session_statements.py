"""Server-side prepared statements of MariaDB, parsed once per connection and called by name.

Parsing takes half of the time of MariaDB for a statement of fifty columns. None of the drivers
supports the binary protocol, but any driver can send ``PREPARE`` and ``EXECUTE ... USING`` as
statements. MySQL accepts no values in ``EXECUTE``, so plain text is sent to MySQL.

Prepared statements belong to their connection and are lost with it.
"""
import hashlib
from collections.abc import Mapping
from collections.abc import MutableMapping
from typing import Any
from typing import NamedTuple

MOST = 64
"""Maximum number of prepared statements of one connection.

The server holds 16,382 prepared statements of all connections by default
(``max_prepared_stmt_count``). If the server accepts no more, plain text is sent again.
"""
_KEY = 'blockattach_prepared'
_ENOUGH_PREPARED, _NOT_PREPARED = 1461, 1243
# Booleans, so that the sum of the states is the number of prepared statements.
_USED_ONCE, _PREPARED = False, True


class Named(NamedTuple):
    """Statement that can be prepared.

    :ivar name: name derived from the text
    :ivar text: text with a question mark for each value
    :ivar call: ``EXECUTE`` statement in the parameter style of the driver
    :ivar order: names of the values by position
    """

    name: str
    text: str
    call: str
    order: tuple[str, ...]


def named(text: str, order: tuple[str, ...] | None) -> Named:
    """Convert the text of a statement to a statement that can be prepared.

    :param text: text in the form of the driver: ``%s`` for each value, or ``%(name)s`` if
        ``order`` is None
    :param order: names of the values by position
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
    """Convert a statement to positional values, and return it with the names of the values.

    :param text: as for `named`
    """
    if order is not None:
        return text, order
    positions = _Positions('%s')
    # The driver formats the result again, so escaped percent signs must stay escaped.
    return text.replace('%%', '%%%%') % positions, tuple(positions.names)


def name_of(text: str) -> str:
    """Return the name of a prepared statement, a digest of the text."""
    return f'statement_{hashlib.sha256(text.encode()).hexdigest()[:16]}'


class _Positions(dict[str, str]):
    """Mapping that records the order in which names are looked up."""

    def __init__(self, mark: str) -> None:
        """
        :param mark: value returned for each name
        """
        super().__init__()
        self._mark = mark
        self.names: list[str] = []

    def __missing__(self, name: str) -> str:
        self.names.append(name)
        return self._mark


def allow(info: MutableMapping[str, Any]) -> None:
    """Enable prepared statements on a connection.

    :param info: data stored with the connection while it is open
    """
    info[_KEY] = {}


def execute(info: MutableMapping[str, Any], cursor: Any, statement: Named,
            values: Mapping[str, Any], error: type[Exception]) -> bool:
    """Execute a prepared statement, which is prepared at its second use on a connection.

    :param values: values by name, converted for storage
    :param error: base class of the driver's errors
    :returns: False if nothing was executed, and the caller must send the original text
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
            # _NOT_PREPARED means that a proxy shares server connections between clients.
            del info[_KEY]
            return False
        raise
