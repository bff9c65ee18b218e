"""Failure of each request of a server action, one in each run, without a process death.

The action is undone or finished, and nothing is left over.
"""
import contextlib

import sqlalchemy as sa

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_late


class RefusedTest(test_late.LateTest):
    """Requests that Block Storage or an agent refuses."""

    PART = exhaustive.Part(0, 2)
    SHIFT = -0.5

    def hang(self):
        raise cloud.Failure

    def asked(self, status, method, path, body=None, **more):
        """Send a request, whose status may be an error during the failure."""
        if self.cloud.cutting.at is None:
            return super().asked(status, method, path, body, **more)
        return self.ask(method, path, body, **more)[1]

    def assert_consistent(self, made):
        """Check a server, which may also be in ERROR without a task state."""
        status, answer = self.ask('GET', f'/servers/{made}')
        if status == 404 or answer['server']['status'] != 'ERROR':
            super().assert_consistent(made)
        else:
            self.assertIsNone(answer['server']['OS-EXT-STS:task_state'])


class LostAnswerTest(RefusedTest):
    """Requests and transactions that succeed while their answer is lost."""

    PART = exhaustive.Part(0, 40)
    SHIFT = 0.0

    def setUp(self):
        super().setUp()
        for name, listener in (('before_cursor_execute', test_late.AheadOfWritesTest.note),
                               ('commit', self.commit),
                               ('rollback', test_late.AheadOfWritesTest.forget)):
            sa.event.listen(sa.Engine, name, listener)
            self.addCleanup(sa.event.remove, sa.Engine, name, listener)

    def settle(self):
        """Run the queued work again if the lost answer ended a thread."""
        with contextlib.suppress(sa.exc.OperationalError):
            super().settle()
        super().settle()

    def commit(self, connected):
        written = connected.info.pop('writes', None)
        if written is not None:
            try:
                self.cloud.cutting.behind(written)
            except cloud.Failure as exc:
                connected.connection.commit()
                raise sa.exc.OperationalError(written, None, exc) from exc
