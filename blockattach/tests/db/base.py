"""Base class of tests on a database.

``BLOCKATTACH_TEST_DATABASES`` (for instance ``sqlite,mysql,postgresql``) names the databases on
which every test runs. Without it, all tests run on SQLite. Tests of behavior that differs between
the databases (types, order, row counts, races, plans, migrations) also run on the servers, most of
them on one server per test.
"""
import os
import random
import sys
import threading
import unittest
import zlib

from blockattach.platform import errors
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive

_CHOSEN = tuple(filter(None, os.environ.get('BLOCKATTACH_TEST_DATABASES', '').split(',')))

# MariaDB refreshes its list of transactions only if nobody has read it for 0.1 seconds, so faster
# polling would read the first list for ever.
BETWEEN_LOOKS = 0.3
# Of this database only, because other tests wait for locks at the same time.
WAITS = {'mysql': 'SELECT count(*) FROM information_schema.innodb_trx JOIN '
                  'information_schema.processlist ON id = trx_mysql_thread_id '
                  "WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()",
         'postgresql': 'SELECT count(*) FROM pg_stat_activity '
                       "WHERE wait_event_type = 'Lock' AND datname = current_database()"}


class DatabaseTestCase(unittest.TestCase):
    """Test case with a database of its own, of the kind of the class."""

    KIND = database.SQLITE
    MIGRATED = True

    def setUp(self):
        super().setUp()
        need(self.KIND)
        self.fixture = database.DatabaseFixture(self.KIND, migrated=self.MIGRATED)
        self.addCleanup(self.fixture.close)
        self.database = self.fixture.database

    def random(self):
        """Return a random generator whose seed is printed, or taken from BLOCKATTACH_TEST_SEED."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def waits_for_a_lock(self, watcher=None):
        """Return the number of transactions of a server that wait for a lock.

        :param watcher: the database to ask through, if the test counts the connections of its own
            one
        """
        with (watcher or self.database).reader() as connection:
            return connection.exec_driver_sql(WAITS[self.KIND]).scalar_one()


def at_once(*acts):
    """Run the functions at the same moment in threads and return their outcomes.

    An outcome is the result ('done' if it is false) or the error of the service.
    """
    barrier, outcomes = threading.Barrier(len(acts)), [None] * len(acts)

    def run(number, act):
        barrier.wait()
        try:
            outcomes[number] = act() or 'done'
        except errors.BlockattachError as exc:
            outcomes[number] = exc

    threads = [threading.Thread(target=run, args=one) for one in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def names(outcomes):
    """Return the outcomes with each error replaced by the name of its class."""
    return [type(one).__name__ if isinstance(one, Exception) else one for one in outcomes]


def need(kind):
    """Skip the test if this kind of database is not available, or fail it if CI is true."""
    if _CHOSEN and kind not in _CHOSEN:
        raise unittest.SkipTest(f'{kind} is not among BLOCKATTACH_TEST_DATABASES')
    reason = database.why_missing(kind)
    if reason is not None:
        if os.environ.get('CI') == 'true':
            raise AssertionError(reason)
        raise unittest.SkipTest(reason)


def on_chosen_databases(case):
    """Run the class on SQLite, or on the databases that the environment variable names."""
    return _on(_CHOSEN or (database.SQLITE,), case)


def on_every_database(case):
    """Run the class on every kind of database, or on those that the environment variable names."""
    return _on(_CHOSEN or database.KINDS, case)


def on_sqlite_and_servers_in_turn(case):
    """Run the class on SQLite, and each of its tests on one of the servers in turn.

    With ``BLOCKATTACH_TEST_EXHAUSTIVE``, or with databases named, this is `on_every_database`.
    """
    if _CHOSEN or exhaustive.wanted():
        return on_every_database(case)
    return _on(database.KINDS, case, in_turn=True)


def on_every_server(case):
    """Run the class on MariaDB and on PostgreSQL, for behavior that SQLite does not have."""
    _on([kind for kind in _CHOSEN or database.KINDS if kind != database.SQLITE], case)


def _on(kinds, case, in_turn=False):
    """Add one class per kind of database to the module of the class."""
    module = sys.modules[case.__module__]
    servers = [kind for kind in kinds if kind != database.SQLITE]
    tests = unittest.TestLoader().getTestCaseNames(case)
    # Classes with a single test start at different servers, which are the same in each run.
    first = zlib.crc32(f'{case.__module__}.{case.__name__}'.encode())
    for number, kind in enumerate(servers):
        name = f'{case.__name__}On{kind.capitalize()}'
        members = {'KIND': kind, '__module__': case.__module__}
        if in_turn:
            # The test loader skips attributes that cannot be called.
            members |= {test: None for place, test in enumerate(tests, first)
                        if place % len(servers) != number}
        setattr(module, name, type(case)(name, (case,), members))
    return case
