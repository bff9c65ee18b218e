"""Invariants: facts that violate each of them, and facts that violate none."""
import dataclasses
import unittest

from blockattach.storage.domain import connection
from blockattach.storage.domain import invariants
from blockattach.storage.domain.invariants import observed

HOST = 'storage-1@disks'
ACTUAL = connection.ActualGrant('v', 'iqn.a', connection.AccessMode.RW, 1, True, 'name')
VOLUME = observed.VolumeFact('v', 'available', 1, 'in-use', 'attached', False, False, 0, 1,
                               f'{HOST}#pool', False)
ROW = observed.AttachmentFact('a', 'v', 'p', 'server', 'attached', False, 1, 0, 'rw', 'iqn.a',
                                None, True, False)
GRANT = observed.GrantFact('v', 'iqn.a', '', 'name')
POOL = observed.PoolFact(f'{HOST}#pool', 1, 10)
TARGET = observed.TargetFact(HOST, frozenset({'v'}), (ACTUAL,))
SNAPSHOT = observed.SnapshotFact('s', 'v', 'available', False, f'{HOST}#pool')
WHOLE = observed.Facts((VOLUME,), (ROW,), (GRANT,), (POOL,), (TARGET,), snapshots=(SNAPSHOT,))
CONNECTING = {'state': 'connecting', 'rank': 2, 'overdue': -5.0}


def volume(**changes):
    return dataclasses.replace(WHOLE, volumes=(dataclasses.replace(VOLUME, **changes),))


def snapshot(of=WHOLE, **changes):
    return dataclasses.replace(of, snapshots=(dataclasses.replace(SNAPSHOT, **changes),))


def row(**changes):
    """Return facts with a changed attachment, which is its own work if ``overdue`` is given."""
    found = dataclasses.replace(WHOLE, attachments=(dataclasses.replace(ROW, **changes),))
    if changes.get('overdue') is None:
        return found
    return work('attachment', ROW.id, changes['overdue'], found)


def work(noun, resource_id, overdue=-5.0, of=WHOLE):
    return dataclasses.replace(of, work=(
        observed.WorkFact(noun, resource_id, 'create', overdue),))


def second(of=WHOLE, **changes):
    """Return facts with another attachment of the same volume, from another host."""
    other = dataclasses.replace(
        ROW, **{'id': 'b', 'initiator': 'iqn.b', 'slot': 1, **changes})
    return dataclasses.replace(of, attachments=(*of.attachments, other))


def target(*grants, exported=('v',)):
    return dataclasses.replace(WHOLE, targets=(
        observed.TargetFact(HOST, frozenset(exported), grants),))


def actual(**changes):
    return dataclasses.replace(ACTUAL, **changes)


OTHER = actual(initiator='iqn.b')

BROKEN = {
    'slots_are_kept': (second(slot=0), second(slot=2), second(instance_uuid='other'),
                        volume(multiattach=True)),
    'one_writes': (second(volume(single_writer=True, multiattach=True), instance_uuid='other'),),
    'one_host_writes': (target(ACTUAL, OTHER),),
    'nobody_else_is_granted': (target(ACTUAL, OTHER),),
    'modes_are_enforced': (target(actual(mode=connection.AccessMode.RO)),
                           target(actual(intact=False)), target(actual(account='else'))),
    'every_user_is_granted': (target(),),
    'credentials_match': (
        dataclasses.replace(WHOLE, grants=()), second(),
        dataclasses.replace(WHOLE, grants=(GRANT, dataclasses.replace(GRANT, initiator='iqn.b')))),
    'work_has_an_end': (row(**{**CONNECTING, 'overdue': None}), row(overdue=-5.0),
                        volume(own_status='deleting'), work('volume', 'v'),
                        volume(own_status='reverting', status='reverting'),
                        snapshot(status='creating'), snapshot(status='deleting'),
                        work('snapshot', 's'),
                        volume(own_status='creating', status='creating'),
                        work('volume', 'v', of=volume(own_status='creating', status='creating',
                                                      made=True))),
    'nothing_is_overdue': (row(**{**CONNECTING, 'overdue': 11.0}),
                           work('volume', 'v', 11.0, volume(own_status='creating'))),
    'attachments_have_volumes': (dataclasses.replace(WHOLE, volumes=()), volume(deleted=True)),
    'attachments_share_the_project': (volume(project_id='other'),),
    'initiators_are_known': (row(connected=False), row(**{**CONNECTING, 'initiator': None})),
    'snapshots_have_a_volume': (snapshot(volume_id='w'), snapshot(pool=f'{HOST}#other'),
                                volume(deleted=True)),
    'snapshots_go_first': (volume(own_status='deleting', status='deleting'),),
    'offers_are_there': (volume(own_status='awaiting-transfer', status='awaiting-transfer'),),
    'row_is_whole': (row(state='gone'), row(rank=2), row(deleted=True),
                     row(state='gone', deleted=True, rank=None)),
    'status_is_derived': (volume(status='available'), volume(lowest_rank=2),
                          volume(attach_status='detached'), volume(detach_announced=1)),
    'moves_between_backends': tuple(
        volume(own_status='retyping', status='retyping', claimed_pool=f'{there}#pool',
               claimed_gb=0) for there in ('storage-2@disks', 'storage-1@disks')),
    'source_stays': (volume(is_copy=True),),
    'made_beside_its_source': (volume(is_copy=True, source_pool='storage-2@disks#pool'),),
    'nothing_deleted_is_exported': (target(ACTUAL, exported=('v', 'w')),),
    'room_is_counted': (dataclasses.replace(WHOLE, pools=(dataclasses.replace(
        POOL, allocated_gb=2),)), volume(claimed_pool=POOL.name, claimed_gb=1)),
    'claims_end': (volume(claimed_pool=POOL.name, claimed_gb=1),),
}


def names(facts, **how):
    return {found.invariant for found in invariants.check(facts, **how)}


class InvariantsTest(unittest.TestCase):

    def test_consistent_facts_violate_nothing(self):
        self.assertEqual([], invariants.check(WHOLE))
        self.assertEqual([], invariants.check(observed.Facts((), ())))

    def test_reset_to_creating_violates_nothing(self):
        self.assertEqual([], invariants.check(volume(
            own_status='creating', status='creating', made=True)))

    def test_each_invariant_violated_by_its_cases(self):
        self.assertEqual(set(BROKEN), {one.name for one in invariants.INVARIANTS})
        for name, cases in BROKEN.items():
            for number, facts in enumerate(cases):
                with self.subTest(name, case=number):
                    self.assertIn(name, names(facts))

    def test_moving_pair_checked_only_when_settled(self):
        moving = target(ACTUAL, OTHER)
        self.assertEqual({'one_host_writes', 'nobody_else_is_granted'}, names(moving))
        self.assertEqual(set(), names(moving, settled=False))
        self.assertEqual(set(), names(dataclasses.replace(
            moving, busy=frozenset({('v', 'iqn.b')}))))

    def test_transfer_offer_violates_nothing(self):
        self.assertEqual(set(), names(volume(
            own_status='awaiting-transfer', status='awaiting-transfer', offered=True)))
        self.assertEqual(set(), names(volume(offered=True)))

    def test_server_on_two_hosts_violates_nothing(self):
        grants = (GRANT, observed.GrantFact('v', 'iqn.b', '-b', 'name'))
        self.assertEqual(set(), names(dataclasses.replace(
            second(target(ACTUAL, OTHER)), grants=grants)))

    def test_unqueried_target_not_checked(self):
        self.assertEqual(set(), names(dataclasses.replace(WHOLE, targets=())))

    def test_violation_names_repair_command(self):
        [found] = invariants.check(volume(status='error'))
        self.assertEqual('blockattach-manage attachments derive v', found.repair)
        self.assertEqual(('P6', observed.Severity.ACCOUNT, 'v', None), (
            found.promise, found.severity, found.volume_id, found.attachment_id))
