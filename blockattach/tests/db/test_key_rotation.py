"""Rotation of the sealing key, also interrupted and with concurrent writers."""
import pathlib
import tempfile
import threading
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import secrets
from blockattach.platform.secrets import key_file
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import key_rotation
from blockattach.tests.db import base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

_grants = models.grants
POINTS = ('secrets.key_file.before_replace', 'secrets.key_file.after_replace',
          'db.key_rotation.after_batch')
SECONDS = polling.LIMIT
MANY = 5


class Cut(Exception):
    """Simulated end of the operator's process."""


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / 'seal.key'
        self.database.sealer = key_file.KeyFile(str(self.path))
        self.volume = make.volume(self.database, multiattach=True)
        self.latest = None

    def process(self):
        """Return the database as opened by a new process, and close the previous one."""
        if self.latest is not None:
            self.latest.close()
        made = self.latest = self.fixture.open()
        made.sealer = key_file.KeyFile(str(self.path))
        return made

    def join(self, database, initiator):
        return attachments.reserve(database, attachments.Wish(
            self.volume.id, make.PROJECT, connector=make.connector(initiator)), 60)

    def passwords(self, database):
        return {grant.initiator: grant.credential.password
                for grant in grants.wanted(database, [self.volume.id])}

    def keys(self):
        return self.path.read_text().split()


@base.on_sqlite_and_servers_in_turn
class RotateTest(Case):

    def setUp(self):
        super().setUp()
        for number in range(MANY):
            self.join(self.database, f'iqn.{number}')

    def test_rotate_reseals_all_credentials(self):
        before, [old] = self.passwords(self.database), self.keys()
        lines = key_rotation.rotate(self.process())
        self.assertEqual(4, len(lines))
        self.assertIn(f'{MANY} credentials resealed', lines[2])
        [new] = self.keys()
        self.assertNotEqual(old, new)
        self.assertEqual(before, self.passwords(self.process()))
        for line in lines:
            self.assertNotIn(new, line)

    def test_interrupted_rotation_completed_by_repeat(self):
        """The rotation is interrupted at each step in turn."""
        left = passed = 0
        while True:
            before, [old] = self.passwords(self.database), self.keys()
            after = self.rotate_until(passed)
            # At each step, a process can open all credentials and write new ones.
            self.assertEqual(before, self.passwords(self.process()))
            self.join(self.process(), f'iqn.more-{passed}')
            if after is None:
                break
            left += len(self.keys()) > 1
            before = self.passwords(self.database)
            key_rotation.rotate(self.process())
            self.assertEqual(before, self.passwords(self.process()))
            [new] = self.keys()
            self.assertNotEqual(old, new)
            self.assertEqual(1, len(key_rotation.counts(self.database)))
            passed += 1
        # The points are before and after each of three writes of the file, and after two batches,
        # of which one is empty.
        self.assertGreaterEqual(passed, 8)
        self.assertGreaterEqual(left, 5)

    def rotate_until(self, passed):
        """Interrupt a rotation after a number of points.

        :returns: the interruption, or None if the rotation has finished before
        """
        counted = iter(range(passed + 1))

        def cut():
            if next(counted, None) == passed:
                raise Cut

        for point in POINTS:
            failpoints.arm(point, cut)
            self.addCleanup(failpoints.disarm, point)
        try:
            return key_rotation.rotate(self.process()) and None
        except Cut as exc:
            return exc
        finally:
            for point in POINTS:
                failpoints.disarm(point)

    def test_rotate_without_key_file_rejected(self):
        self.database.sealer = secrets.Sealer([self.keys()[0].encode()])
        with self.assertRaisesRegex(errors.ConfigurationError, '--prepare'):
            key_rotation.rotate(self.database)


@base.on_sqlite_and_servers_in_turn
class WritersTest(Case):
    """Transactions that begin with the old key and end after the new key was added."""

    def test_write_with_replaced_key_resealed(self):
        """A credential sealed by the old key but not written yet is sealed again."""
        other, replaced = self.process(), []

        def replace(connection, cursor, statement, *rest):
            if 'INSERT INTO grants' in statement and not replaced:
                replaced.append(statement)
                operator = key_file.KeyFile(str(self.path))
                operator.add()
                operator.promote()

        sa.event.listen(other.engine, 'before_cursor_execute', replace)
        self.join(other, 'iqn.a')
        self.assertTrue(replaced)
        new, _ = self.process().sealer.ring()
        self.assertEqual({new.id: 1}, key_rotation.counts(self.database))
        self.assertEqual(1, len(self.passwords(self.database)))

    def test_rotation_waits_for_uncommitted_row(self):
        """The old key is kept until the row that uses it is committed."""
        operator, writing, go_on = self.process(), threading.Event(), threading.Event()
        other = self.process()

        def hold(connection):
            if self.wrote:
                writing.set()
                go_on.wait(SECONDS)

        def note(connection, cursor, statement, *rest):
            self.wrote = self.wrote or 'INSERT INTO grants' in statement

        self.wrote = False
        sa.event.listen(other.engine, 'after_cursor_execute', note)
        sa.event.listen(other.engine, 'commit', hold)
        with futures.ThreadPoolExecutor(2) as pool:
            joining = pool.submit(self.join, other, 'iqn.a')
            self.assertTrue(writing.wait(SECONDS))
            [old] = operator.sealer.ring()
            key_rotation.prepare(operator)
            key_rotation.promote(operator)
            finishing = pool.submit(self.finish, operator)
            self.wait_until_it_waits(finishing)
            go_on.set()
            joining.result(SECONDS)
            self.assertIn('1 credentials are not sealed', finishing.result(SECONDS))
        self.assertEqual(2, len(self.keys()))
        self.assertEqual({old.id: 1}, key_rotation.counts(self.database))
        key_rotation.reseal(operator)
        key_rotation.finish(operator)
        self.assertEqual(1, len(self.passwords(self.process())))

    def finish(self, operator):
        """Finish the rotation and return its result, or its error message."""
        try:
            return key_rotation.finish(operator)
        except errors.ConfigurationError as exc:
            return str(exc)

    def wait_until_it_waits(self, finishing):
        """Wait until the rotation waits for a lock of the server.

        On SQLite there is nothing to wait for, because writers wait for a lock in their own
        process.
        """
        if self.KIND == database.SQLITE:
            return
        polling.until(lambda: finishing.done() or self.waits_for_a_lock(),
                      tick=base.BETWEEN_LOOKS)
        self.assertFalse(finishing.done(), 'the rotation did not wait')
