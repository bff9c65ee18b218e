"""What databases say when they take nothing more: the disk is full, or they are read-only."""

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
    """Whether this, or what it wraps, says so. Nothing was written then."""
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, 'pgcode', None) in _POSTGRESQL:
            return True
        if type(seen).__module__ == 'sqlite3':
            return any(text in str(seen) for text in _SQLITE)
        if seen.args and isinstance(seen.args[0], int) and seen.args[0] in _MYSQL:
            return True
        seen = getattr(seen, 'inner_exception', None) or getattr(seen, 'orig', None)
    return False
