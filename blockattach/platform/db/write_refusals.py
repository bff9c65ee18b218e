"""Detection of errors of databases that reject writes because they are full or read-only."""

_SQLITE = ('database or disk is full', 'attempt to write a readonly database')
_MYSQL = {
    1021: 'ER_DISK_FULL',
    1114: 'ER_RECORD_FILE_FULL',
    1290: 'ER_OPTION_PREVENTS_STATEMENT',
    1792: 'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION',
    1836: 'ER_READ_ONLY_MODE',
}
_POSTGRESQL = {'25006': 'read_only_sql_transaction', '53100': 'disk_full'}


def is_refusal(error: BaseException) -> bool:
    """Return True if an error, or an error it wraps, is a rejected write. Nothing was written."""
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, 'pgcode', None) in _POSTGRESQL:
            return True
        if type(cause).__module__ == 'sqlite3':
            return any(text in str(cause) for text in _SQLITE)
        if cause.args and isinstance(cause.args[0], int) and cause.args[0] in _MYSQL:
            return True
        cause = getattr(cause, 'inner_exception', None) or getattr(cause, 'orig', None)
    return False
