"""Process that upgrades the schema of a database at the same time as others."""
import fcntl
import importlib
import sys

from blockattach.tests.fixtures import database

READY = 'ready\n'


def main() -> None:
    """Connect, wait until the test releases the lock of the file, and upgrade."""
    module, url, path = sys.argv[1:]
    migrations = importlib.import_module(module).MIGRATIONS
    engine = database.open_engine(url)
    print(READY, end='', flush=True)
    with open(path, 'rb') as held:
        fcntl.flock(held, fcntl.LOCK_SH)
    migrations.upgrade(engine)
    assert migrations.version(engine) == migrations.expected()
