"""What a database is asked, as it is sent to it."""
import contextlib

import sqlalchemy as sa

_EXPLAINED = ('SELECT', 'UPDATE', 'DELETE', 'WITH')


@contextlib.contextmanager
def statements(engine):
    """Those that have a plan, each with its values, while the context lasts."""
    sent = []

    def remember(connection, cursor, statement, values, context, many):
        if statement.split(None, 1)[0] in _EXPLAINED and not many:
            sent.append((statement, values))

    sa.event.listen(engine, 'before_cursor_execute', remember)
    try:
        yield sent
    finally:
        sa.event.remove(engine, 'before_cursor_execute', remember)
