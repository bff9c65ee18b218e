"""Checker of invariants on real tables, which finds each broken column, and its repair."""
import datetime

import sqlalchemy as sa

from blockattach.platform import clock
from blockattach.storage.db import derived
from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.drivers import faults
from blockattach.storage.drivers.targets import fake
from blockattach.storage.volume import checker
from blockattach.testing import backend
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

STATES = attachment_lifecycle.State
_rows = models.attachments
_volumes = models.volumes
HOST = make.POOL.partition('#')[0]
EARLIER = datetime.datetime(2020, 1, 1)

# Statement, and the invariants that it violates.
BREAKAGES = (
    (_volumes.update().values(status='available'), {'status_is_derived'}),
    (_volumes.update().values(lowest_rank=None), {'status_is_derived'}),
    (_rows.update().values(rank=4), {'row_is_whole'}),
    (_rows.update().where(_rows.c.state == 'gone').values(slot=1), {'row_is_whole'}),
    (_rows.update().where(_rows.c.state == 'connecting').values(deadline=None),
     {'work_has_an_end'}),
    (_rows.update().where(_rows.c.state == 'attached').values(deadline=EARLIER),
     {'work_has_an_end', 'nothing_is_overdue'}),
    (models.grants.delete(), {'credentials_match'}),
    (models.pools.update().values(allocated_gb=77), {'room_is_counted'}),
)


class Meanwhile(clock.Clock):
    """Clock that runs a callback between two checks."""

    def __init__(self, act):
        self._act = act

    def wait(self, event, seconds):
        self._act()
        return False


@base.on_chosen_databases
class CheckerTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)
        for state in STATES:
            make.attachment(self.database, self.volume, state)
        self.checker = checker.Checker(self.database)

    def found(self):
        return {one.invariant for one in self.checker.violations()}

    def test_rows_of_verbs_satisfy_invariants(self):
        self.assertEqual(set(), self.found())

    def test_broken_rows_found_and_repaired(self):
        for statement, broken in BREAKAGES:
            with self.subTest(str(statement)):
                with self.database.writer() as connection_:
                    connection_.execute(statement)
                self.assertEqual(broken, self.found())
                derived.volume_status(self.database, self.volume.id)
                derived.counts(self.database)
                remaining = self.found()
                # The repair does not touch the row that is overdue.
                self.assertLessEqual(remaining, {'nothing_is_overdue'})

    def test_overdue_work_found_after_grace(self):
        for seconds, broken in ((5, set()), (60, {'nothing_is_overdue'})):
            with self.database.writer() as connection_:
                now = connection_.execute(sa.select(_rows.c.deadline).where(
                    _rows.c.state == 'connecting')).scalar_one()
                moment = now - datetime.timedelta(seconds=make.LEASE_SECONDS + seconds)
                connection_.execute(_rows.update().where(_rows.c.state == 'connecting').values(
                    deadline=moment))
            self.assertEqual(broken, self.found())


class TargetTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.target = fake.FakeTarget(backend.settings('/nonexistent'))
        self.checker = checker.Checker(self.database, {HOST: self.target})
        self.row = make.attachment(self.database, with_connector=make.connector('iqn.a'))

    def found(self):
        return [one.invariant for one in self.checker.violations()]

    def grant(self, initiator, mode=connection.AccessMode.RW):
        credential = make.credential(self.database, self.row.volume_id, 'iqn.a')
        self.target.grant(connection.Export(self.row.volume_id, 'name', '/dev/null', 1),
                          connection.Grant(self.row.volume_id, initiator, mode, credential,
                                           '' if initiator == 'iqn.a' else '-b'))

    def test_target_grants_checked_against_rows(self):
        self.assertEqual(['every_user_is_granted'], self.found())
        self.grant('iqn.a')
        self.assertEqual([], self.found())
        self.grant('iqn.a', connection.AccessMode.RO)
        self.assertEqual(['modes_are_enforced'], self.found())
        self.grant('iqn.a')
        self.grant('iqn.b')
        self.assertEqual(['one_host_writes', 'nobody_else_is_granted'], self.found())
        self.target.revoke(self.row.volume_id, 'iqn.b')
        self.target.export(connection.Export('gone', 'name', '/dev/null', 1))
        self.assertEqual(['nothing_deleted_is_exported'], self.found())

    def test_silent_target_skipped_by_checker(self):
        """Only violations of the rows and of the other target are found."""
        other = fake.FakeTarget(backend.settings('/nonexistent'))
        other.export(connection.Export('gone', 'name', '/dev/null', 1))
        with self.database.writer() as writer:
            writer.execute(models.pools.update().values(allocated_gb=77))
        self.assertEqual(['every_user_is_granted', 'room_is_counted'], self.found())
        looking = checker.Checker(
            self.database, {HOST: self.target, 'other@disks': other},
            Meanwhile(lambda: self.target.faults.plan('exports', faults.Fault.UNCERTAIN_BEFORE)))
        asked = self.target.faults.calls['exports']
        self.assertEqual(['nothing_deleted_is_exported', 'room_is_counted'],
                         [one.invariant for one in looking.lasting()])
        self.assertEqual({HOST: 'exports lost as planned'}, looking.silent)
        # A target that does not answer costs a timeout per call, so it is not asked again.
        self.assertEqual(asked + 2, self.target.faults.calls['exports'])
