"""Each thing that an act asks for fails, one in each run, and nobody dies: the act is undone, or
done to its end, and nothing is left over.
"""
import contextlib

import sqlalchemy as sa

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_late


class RefusedTest(test_late.LateTest):
    """Block storage and agents refuse it."""

    PART = exhaustive.Part(0, 2)
    SHIFT = -0.5

    def hang(self):
        raise cloud.Failure

    def asked(self, status, method, path, body=None, **more):
        """A client may hear of it."""
        if self.cloud.cutting.at is None:
            return super().asked(status, method, path, body, **more)
        return self.ask(method, path, body, **more)[1]

    def assert_consistent(self, made):
        """What cannot be finished is an error, and goes with the server."""
        status, answer = self.ask('GET', f'/servers/{made}')
        if status == 404 or answer['server']['status'] != 'ERROR':
            super().assert_consistent(made)
        else:
            self.assertIsNone(answer['server']['OS-EXT-STS:task_state'])


class LostAnswerTest(RefusedTest):
    """It is done, and the answer is lost: those of transactions, too."""

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
        """A thread may end by it."""
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
