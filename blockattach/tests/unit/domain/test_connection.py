"""Connections, and differences between the wanted and the actual grants."""
import dataclasses
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import connection

RW, RO = connection.AccessMode.RW, connection.AccessMode.RO


def grant(volume='v1', initiator='i1', mode=RW):
    return connection.Grant(volume, initiator, mode, connection.Credential('name', 'hunter2'))


def actual(volume='v1', initiator='i1', mode=RW, sessions=1, intact=True, account=None):
    return connection.ActualGrant(volume, initiator, mode, sessions, intact, account)


class DifferenceTest(unittest.TestCase):

    def check(self, wanted, found, to_grant=(), to_revoke=()):
        self.assertEqual(tuple({(one.volume_id, one.initiator) for one in some}
                               for some in (to_grant, to_revoke)),
                         connection.difference(wanted, found))

    def test_difference_of_no_grants_is_none(self):
        self.check([], [])

    def test_difference_ignores_sessions(self):
        for sessions in (0, 1, 7):
            self.check([grant()], [actual(sessions=sessions)])

    def test_missing_grant_granted(self):
        self.check([grant()], [], to_grant=[grant()])

    def test_unwanted_grant_revoked(self):
        self.check([], [actual()], to_revoke=[actual()])

    def test_grant_with_other_mode_granted_again(self):
        for wanted, found in ((RW, RO), (RO, RW)):
            self.check([grant(mode=wanted)], [actual(mode=found)], to_grant=[grant(mode=wanted)])

    def test_grant_with_other_account_granted_again(self):
        for account in (None, grant().credential.username):
            self.check([grant()], [actual(account=account)])
        for account in ('', 'other'):
            self.check([grant()], [actual(account=account)], to_grant=[grant()])

    def test_difference_ignores_case_of_initiator(self):
        self.check([grant(initiator='I1')], [actual(initiator='i1')])
        self.check([grant(initiator='i1')], [actual(initiator='I1')])

    def test_grant_without_needed_spelling_granted_again(self):
        wanted = dataclasses.replace(grant(), spellings=frozenset({'I1'}))
        for spellings, to_grant in ((None, ()), (frozenset({'I1'}), ()), (frozenset(), [wanted])):
            self.check([wanted], [dataclasses.replace(actual(), spellings=spellings)], to_grant)

    def test_incomplete_grant_repaired_or_revoked(self):
        self.check([grant()], [actual(intact=False)], to_grant=[grant()])
        self.check([], [actual(intact=False)], to_revoke=[actual(intact=False)])

    def test_grants_compared_by_volume_and_initiator(self):
        self.check([grant('v1', 'i1'), grant('v2', 'i2')],
                   [actual('v1', 'i2'), actual('v2', 'i2')],
                   to_grant=[grant('v1', 'i1')], to_revoke=[actual('v1', 'i2')])


class ModeTest(unittest.TestCase):

    def test_widest_mode_is_rw_with_any_writer(self):
        self.assertIs(RW, connection.widest([RO, RW, RO]))
        self.assertIs(RO, connection.widest([RO, RO]))
        self.assertIs(RW, connection.widest(iter([RW])))


class InitiatorTest(unittest.TestCase):

    def test_initiator_converted_to_lower_case(self):
        for name in ('iqn.1994-05.com.example:host-1', 'iqn.1994-05.com.example:Host-1',
                     'IQN.1994-05.COM.EXAMPLE:HOST-1', 'eui.02004567A425678D', 'x' * 223):
            self.assertEqual(name.lower(),
                             connection.initiator_of({'initiator': name, 'host': 'h'}))

    def test_spellings_of_initiator_by_case(self):
        self.assertEqual({'iqn.A', 'IQN.a'}, connection.spellings('iqn.a', [
            None, {}, {'initiator': 5}, {'initiator': 'iqn.A'}, {'initiator': 'IQN.a'},
            {'initiator': 'iqn.a'}, {'initiator': 'iqn.B'}]))
        self.assertEqual({'iqn.A'}, connection.spellings('iqn.A', []))

    def test_unusable_initiator_rejected(self):
        for value in (None, '', 5, ['iqn.x'], {}, 'two words', 'line\nbreak', 'nul\0', 'x' * 224,
                      'a,b', 'a=b', 'a"b', '*', '.a', 'iqn.\u00e9', '\u0661qn'):
            with self.subTest(value=value):
                self.assertRaises(errors.ConnectorUnusable, connection.initiator_of,
                                  {'initiator': value})
        with self.assertRaises(errors.ConnectorUnusable) as caught:
            connection.initiator_of({})
        self.assertEqual("Invalid input received: Connector doesn't have required information: "
                         'initiator', str(caught.exception))


class ConnectionTest(unittest.TestCase):

    def test_connection_with_one_portal(self):
        self.assertEqual(
            {'driver_volume_type': 'iscsi', 'target_discovered': False,
             'target_portal': '192.0.2.1:3260', 'target_iqn': 'iqn.x', 'target_lun': 1},
            connection.Connection('iscsi', ('192.0.2.1:3260',), 'iqn.x', 1).to_dict())

    def test_connection_with_portals_has_lists_of_equal_length(self):
        info = connection.Connection('iscsi', ('a:1', 'b:2'), 'iqn.x', 0).to_dict()
        self.assertEqual('a:1', info['target_portal'])
        self.assertEqual((['a:1', 'b:2'], ['iqn.x'] * 2, [0, 0]),
                         (info['target_portals'], info['target_iqns'], info['target_luns']))

    def test_repr_hides_password(self):
        self.assertNotIn('hunter2', repr(grant()))
        self.assertNotIn('hunter2', str([grant().credential]))
