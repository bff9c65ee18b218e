"""Recording of the statements that are sent to a database."""
import contextlib

import sqlalchemy as sa

_BLOCK, _OTHERS = 'BEGIN NOT ATOMIC', 'IF ROW_COUNT() > 0 THEN'
_EXPLAINED = ('SELECT', 'UPDATE', 'DELETE', 'WITH')


@contextlib.contextmanager
def listening(database, **listeners):
    """Register listeners by the name of their SQLAlchemy event within the context."""
    found = [(engine, name, listener) for engine in database.engines
             for name, listener in listeners.items()]
    for one in found:
        sa.event.listen(*one)
    try:
        yield
    finally:
        for one in found:
            sa.event.remove(*one)


@contextlib.contextmanager
def statements(database):
    """Yield a list that collects the statements that have a plan, each with its values."""
    sent = []

    def remember(connection, cursor, statement, values, context, many):
        for part, of_part in _parts(statement, values):
            if part.split(None, 1)[0] in _EXPLAINED and not many:
                sent.append((part, of_part))

    with listening(database, before_cursor_execute=remember):
        yield sent


def _parts(statement, values):
    """Return the statements in a compound statement of MariaDB, each with its values."""
    if not statement.startswith(_BLOCK):
        return [(statement, values)]
    found = []
    for part in statement.split(';\n'):
        text = part.removeprefix(_BLOCK).removeprefix(_OTHERS).strip()
        number = text.count('%s')
        found.append((text, values[:number]))
        values = values[number:]
    return found
