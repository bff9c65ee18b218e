"""Repairs that ``attachments check`` names, applied to each way to break the rows.

The repairs by ``blockattach-manage reconcile`` are covered by the tests of the reconciler.
"""
from blockattach.storage.db import derived
from blockattach.storage.domain import invariants
from blockattach.storage.domain.invariants import observed
from blockattach.storage.volume import checker
from blockattach.tests.api import actions
from blockattach.tests.fixtures import http

# Invariant, and the statement that violates it on a volume with two hosts and a reservation.
BROKEN = (
    ('status_is_derived', "UPDATE volumes SET status = 'available'"),
    ('status_is_derived', 'UPDATE volumes SET lowest_rank = 4'),
    ('status_is_derived', "UPDATE volumes SET attach_status = 'detached'"),
    ('row_is_whole', "UPDATE attachments SET rank = 3 WHERE state = 'reserved'"),
    ('row_is_whole', "UPDATE attachments SET deleted = 1 WHERE state = 'reserved'"),
    ('work_has_an_end', "UPDATE attachments SET deadline = '2030-01-01 00:00:00.000000'"),
    ('work_has_an_end',
     'INSERT INTO work (id, noun, resource_id, verb, generation, deadline, attempts, progress, '
     "created_at) SELECT id, 'volume', id, 'create', 1, '2030-01-01 00:00:00.000000', 0, '{}', "
     'created_at FROM volumes'),
    ('credentials_match', 'DELETE FROM grants'),
    ('credentials_match', "UPDATE grants SET initiator = initiator || '-another'"),
    ('initiators_are_known', 'UPDATE attachments SET connection = NULL'),
    ('initiators_are_known',
     "UPDATE attachments SET initiator = NULL, state = 'connected', rank = 2 "
     "WHERE state = 'attached'"),
    ('attachments_share_the_project', "UPDATE attachments SET project_id = 'other'"),
    ('attachments_have_volumes', "UPDATE volumes SET deleted = 1, own_status = 'deleted'"),
    ('room_is_counted', 'UPDATE pools SET allocated_gb = 17'),
    ('claims_end', 'UPDATE volumes SET claimed_pool = pool, claimed_gb = 2'),
)
DERIVED = {observed.DERIVE, observed.COUNT, observed.END}


class RepairsTest(actions.ActionsTestCase):

    def violations(self):
        return checker.Checker(self.http.database, {
            http.HOST: self.http.manager.backend.fake_target}).violations()

    def repair(self, one):
        """Carry out the repair command that a violation names."""
        if one.repair == observed.DERIVE.format(volume_id=one.volume_id):
            derived.volume_status(self.http.database, one.volume_id)
        elif one.repair == observed.COUNT:
            derived.counts(self.http.database)
        elif one.repair == observed.END.format(attachment_id=one.attachment_id):
            self.assert_status(200, self.http.as_admin.delete(f'/attachments/{one.attachment_id}'))

    def test_broken_rows_repaired_as_reported(self):
        for name, statement in BROKEN:
            with self.subTest(name=name, statement=statement):
                self.fixture()
                self._multiattach = None
                volume_id = self.volume(multiattach=True)
                for server_id in (actions.base.SERVER, actions.base.OTHER_SERVER):
                    self.attached(volume_id, server_id)
                self.reserve(volume_id, actions.base.new_id())
                self.assertEqual([], self.violations())
                self.sql(statement)
                found = self.violations()
                self.assertIn(name, [one.invariant for one in found])
                for one in found:
                    self.repair(one)
                self.assertEqual([], [
                    one for one in self.violations() if one.repair != observed.RECONCILE])

    def test_every_derived_repair_covered(self):
        played = {name for name, _ in BROKEN}
        self.assertEqual(
            {row.name for row in invariants.INVARIANTS if row.repair in DERIVED},
            played)
