"""What a database is asked, as it is sent to it."""
import contextlib

import sqlalchemy as sa

_BLOCK, _OTHERS = 'BEGIN NOT ATOMIC', 'IF ROW_COUNT() > 0 THEN'
_EXPLAINED = ('SELECT', 'UPDATE', 'DELETE', 'WITH')


@contextlib.contextmanager
def statements(engine):
    """Those that have a plan, each with its values, while the context lasts."""
    sent = []

    def remember(connection, cursor, statement, values, context, many):
        for part, of_part in _parts(statement, values):
            if part.split(None, 1)[0] in _EXPLAINED and not many:
                sent.append((part, of_part))

    sa.event.listen(engine, 'before_cursor_execute', remember)
    try:
        yield sent
    finally:
        sa.event.remove(engine, 'before_cursor_execute', remember)


def _parts(statement, values):
    """Those that MariaDB was sent as one, each with its values."""
    if not statement.startswith(_BLOCK):
        return [(statement, values)]
    found = []
    for part in statement.split(';\n'):
        text = part.removeprefix(_BLOCK).removeprefix(_OTHERS).strip()
        number = text.count('%s')
        found.append((text, values[:number]))
        values = values[number:]
    return found
