"""Contract of the LIO target on a simulated kernel; the lab uses a real one."""
import dataclasses
import errno
import os
import re

from blockattach.conformance import target
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.domain import connection
from blockattach.tests.conformance import lio_backend

_RW = connection.AccessMode.RW
_RO = connection.AccessMode.RO
_STRANGER = 'iqn.2026-01.org.example:somebody'
_HOST = 'iqn.2026-01.org.example:host-0'


class LioTest(target.TargetContract, lio_backend.Lio):
    pass


class LioResizeTest(target.ResizeContract, lio_backend.Lio):
    pass


class LioReservationTest(target.ReservationContract, lio_backend.Lio):

    def registers(self, export, grants):
        self.kernel.set_reservations(self.name(export), [one.initiator for one in grants])

    def reserves(self, export, holder):
        stored = self.target.reservations(export.volume_id)
        self.kernel.set_reservations(self.name(export), sorted(stored.registered),
                                     holder.initiator)

    def test_all_registrants_hold_all_registrants_reservation(self):
        export = self.an_export()
        grants = [self.a_grant(export, number) for number in range(2)]
        for grant in grants:
            self.target.grant(export, grant)
        self.kernel.set_reservations(
            self.name(export), [one.initiator for one in grants], grants[0].initiator,
            'Write Exclusive Access, All Registrants')
        found = self.target.reservations(export.volume_id)
        self.assertEqual([connection.HostReservation.HOLDER] * 2,
                         [found.of(one.initiator) for one in grants])

    def test_host_beyond_truncated_list_unknown(self):
        export = self.an_export()
        self.target.grant(export, self.a_grant(export))
        many = [f'iqn.2026-01.org.example:host-{number:04}' for number in range(100)]
        self.kernel.set_reservations(self.name(export), many)
        found = self.target.reservations(export.volume_id)
        self.assertEqual(connection.HostReservation.REGISTERED, found.of(many[0]))
        self.assertIsNone(found.of(many[-1]))

    def test_kept_reservations_restored_after_power_loss(self):
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.kernel.keep_reservations(export.volume_id, [grant.initiator, _STRANGER])
        self.kernel.reboot()
        self.target = self.make()
        self.target.grant(export, grant)
        with open(f'{self.store(export)}/pr/res_aptpl_metadata', encoding='ascii') as file:
            given = file.read()
        self.assertEqual([grant.initiator, _STRANGER],
                         re.findall(r'initiator_node=([^,]+),sa_res_key=2748', given))

    def test_grant_rejected_if_reservations_not_restored(self):
        export = self.an_export()
        grant = self.a_grant(export)
        self.kernel.keep_reservations(export.volume_id, [grant.initiator])
        self.kernel.fail('res_aptpl_metadata', errno.EINVAL)
        with self.assertRaisesRegex(errors.BackendRefused, 'pr/aptpl_.*remove the file'):
            self.target.grant(export, grant)
        self.assertEqual({}, self.granted(export))
        self.target.grant(export, grant)
        self.assertEqual([grant.initiator], list(self.granted(export)))

    def test_revoked_host_reservation_not_restored(self):
        export = self.an_export()
        kept, gone = self.a_grant(export), self.a_grant(export, 1)
        for grant in (kept, gone):
            self.target.grant(export, grant)
        self.kernel.keep_reservations(export.volume_id, [kept.initiator, gone.initiator])
        self.target.revoke(export.volume_id, gone.initiator)
        path = f'{self.kernel.database}/pr/aptpl_{export.volume_id}'
        with open(path, encoding='ascii') as file:
            remaining = file.read()
        self.assertIn(kept.initiator, remaining)
        self.assertNotIn(gone.initiator, remaining)
        self.target.unexport(export.volume_id)
        self.assertFalse(os.path.exists(path))


class LioAdoptionTest(lio_backend.Lio):
    """Adoption of a target of Cinder's lioadm, whose hosts share a credential."""

    SHARED = connection.Credential('someone', 'a-shared-secret')

    def setUp(self):
        super().setUp()
        self.offered = self.an_export()
        self.wanted = [dataclasses.replace(
            self.a_grant(self.offered, number), credential=self.SHARED, adopted=True)
            for number in range(2)]
        self.make_as_cinder()
        for grant in self.wanted:
            self.assertTrue(self.logs_in(self.offered, grant))

    def make_as_cinder(self):
        store = f'{self.kernel.root}/core/iblock_0/{self.name(self.offered)}'
        group = self.group(self.offered)
        unit = f'{group}/lun/lun_0'
        for path in (os.path.dirname(store), store, f'{self.kernel.root}/iscsi',
                     os.path.dirname(group), group):
            if not os.path.isdir(path):
                os.mkdir(path)
        for name, text in (('control', f'udev_path={self.offered.device}'), ('enable', '1'),
                           ('udev_path', self.offered.device),
                           ('wwn/vpd_unit_serial', 'a-serial-of-its-own')):
            self.write(f'{store}/{name}', text)
        os.mkdir(unit)
        os.symlink(store, f'{unit}/a-link')
        for grant in self.wanted:
            entry = self.entry(self.offered, grant)
            os.mkdir(entry)
            self.write(f'{entry}/auth/userid', self.SHARED.username)
            self.write(f'{entry}/auth/password', self.SHARED.password)
            os.mkdir(f'{entry}/lun_0')
            os.symlink(unit, f'{entry}/lun_0/a-link')
            self.write(f'{entry}/lun_0/write_protect', '0')
        for address in ('127.0.0.1', '127.0.0.2', '[::1]'):
            os.mkdir(f'{group}/np/{address}:3260')
        self.write(f'{group}/enable', '1')

    def write(self, path, text):
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)

    def test_adopted_sessions_continue_and_others_refused(self):
        before = self.on_disk()
        for _ in range(2):
            made = {self.target.grant(self.offered, grant) for grant in self.wanted}
        [found] = made
        self.assertEqual((self.name(self.offered), 0), (found.target_name, found.lun))
        self.assertEqual(before, self.on_disk())
        self.assertEqual((set(), set()), connection.difference(
            self.wanted, self.truth(self.offered).values()))
        self.assertEqual([1, 1], [one.sessions for one in self.truth(self.offered).values()])
        with open(f'{self.store(self.offered)}/wwn/vpd_unit_serial', encoding='ascii') as file:
            self.assertIn('a-serial-of-its-own', file.read())
        other = dataclasses.replace(self.wanted[0], initiator=_STRANGER)
        self.assertFalse(self.logs_in(self.offered, other))

    def test_revoke_of_adopted_host_keeps_other(self):
        for grant in self.wanted:
            self.target.grant(self.offered, grant)
        first, second = self.wanted
        self.target.revoke(self.offered.volume_id, first.initiator)
        self.assertEqual([(second.initiator, 1)], [
            (one.initiator, one.sessions) for one in self.truth(self.offered).values()])
        self.assertFalse(self.logs_in(self.offered, first))

    def test_reattached_host_gets_own_credential(self):
        first = self.wanted[0]
        for grant in self.wanted:
            self.target.grant(self.offered, grant)
        self.target.revoke(self.offered.volume_id, first.initiator)
        anew = self.a_grant(self.offered, mode=_RO)
        self.target.grant(self.offered, anew)
        self.assertTrue(self.logs_in(self.offered, anew))
        self.assertFalse(self.logs_in(self.offered, first))
        self.assertEqual((_RO, True), (self.truth(self.offered)[anew.initiator].mode,
                                       self.truth(self.offered)[anew.initiator].intact))


class CostTest(lio_backend.Lio):
    """Cost of a grant, which depends on its own volume only."""

    def accesses(self, act, *arguments):
        before = len(self.kernel.accesses)
        act(*arguments)
        return self.kernel.accesses[before:]

    def costs(self):
        """Return the number of accesses of each request for a grant.

        The requests are a first connect, one of a second host, a repeat, a change of the mode, the
        list of reservations, and a detach.
        """
        export = self.an_export()
        one, two = self.a_grant(export), self.a_grant(export, 1)
        grant = self.target.grant
        found = [self.accesses(*act) for act in (
            (grant, export, one), (grant, export, two), (grant, export, one),
            (grant, export, dataclasses.replace(one, mode=_RO)),
            (self.target.reservations, export.volume_id),
            (self.target.revoke, export.volume_id, two.initiator))]
        for paths in found:
            # Outside of the folders of the volume, a request accesses only fixed paths.
            self.assertLessEqual(
                {path for path in paths if export.volume_id not in path},
                {f'{self.kernel.root}/{place}' for place in ('core', 'iscsi', 'dbroot')}
                | {os.path.dirname(self.store(export))})
        return [len(paths) for paths in found]

    def test_grant_cost_independent_of_other_volumes(self):
        alone = self.costs()
        for _ in range(500):
            self.target.export(self.an_export())
        self.assertEqual(alone, self.costs())
        self.assertLess(max(alone), 400)

    def test_grant_cost_independent_of_other_hosts(self):
        export = self.an_export()
        counts = set()
        for number in range(20):
            self.target.grant(export, self.a_grant(export, 2 * number))
            counts.add(len(self.accesses(
                self.target.grant, export, self.a_grant(export, 2 * number + 1))))
        self.assertEqual(1, len(counts), counts)


class HalfMadeTest(lio_backend.Lio):
    """Steps interrupted by the death of the service, which the next process repeats or reverts."""

    GRANT = ('after_target', 'after_group', 'after_backstore_made', 'after_unit', 'after_acl',
             'after_mapping', 'after_account')
    REVOKE = ('after_unmap',)
    UNEXPORT = ('after_groups', 'after_backstore')

    def interrupted(self, step, act, *arguments):
        def crash():
            raise KeyboardInterrupt

        failpoints.arm(f'privileged.lio.{step}', crash)
        try:
            with self.assertRaises(KeyboardInterrupt):
                act(*arguments)
        finally:
            failpoints.disarm(f'privileged.lio.{step}')

    def test_interrupted_grant_gives_no_access_until_repeated(self):
        for step in self.GRANT:
            with self.subTest(step=step):
                export = self.an_export()
                grant = self.a_grant(export, mode=_RO)
                self.interrupted(step, self.target.grant, export, grant)
                self.assertFalse(self.logs_in(export, grant))
                self.assertFalse(any(one.intact for one in self.truth(export).values()))
                self.target.grant(export, grant)
                self.assertTrue(self.truth(export)[grant.initiator].intact)
                self.assertTrue(self.logs_in(export, grant))

    def test_interrupted_grant_listed_and_revocable(self):
        empty = self.on_disk()
        for step in self.GRANT:
            with self.subTest(step=step):
                export = self.an_export()
                grant = self.a_grant(export)
                self.interrupted(step, self.target.grant, export, grant)
                self.assertIn(export.volume_id,
                              [found.volume_id for found in self.target.exports()])
                self.target.revoke(export.volume_id, grant.initiator)
                self.assertEqual({}, self.granted(export))
                self.target.unexport(export.volume_id)
                self.assertEqual(empty, self.on_disk())

    def test_interrupted_revoke_repeatable(self):
        for step in self.REVOKE:
            export = self.an_export()
            grant = self.a_grant(export)
            self.target.grant(export, grant)
            self.interrupted(step, self.target.revoke, export.volume_id, grant.initiator)
            self.assertFalse(self.truth(export)[grant.initiator].intact)
            self.target.revoke(export.volume_id, grant.initiator)
            self.assertEqual({}, self.granted(export))

    def test_interrupted_unexport_listed_and_repeatable(self):
        empty = self.on_disk()
        for step in self.UNEXPORT:
            with self.subTest(step=step):
                export = self.an_export()
                self.target.grant(export, self.a_grant(export))
                self.interrupted(step, self.target.unexport, export.volume_id)
                self.assertEqual([export.volume_id],
                                 [found.volume_id for found in self.target.exports()])
                self.target.unexport(export.volume_id)
                self.assertEqual(empty, self.on_disk())


class PortalTest(lio_backend.Lio):
    """Several portal addresses as several paths to one unit."""

    def make(self):
        self.settings = dataclasses.replace(
            self.settings, target_secondary_ip_addresses=('127.0.0.2', '::1', '127.0.0.1'))
        return super().make()

    def test_every_address_is_portal_in_connection_info(self):
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        self.assertEqual(('127.0.0.1:3260', '127.0.0.2:3260', '[::1]:3260'), made.portals)
        self.assertEqual(sorted(made.portals), sorted(os.listdir(f'{self.group(export)}/np')))
        info = made.to_dict()
        self.assertEqual(list(made.portals), info['target_portals'])
        self.assertEqual([self.name(export)] * 3, info['target_iqns'])
        self.assertEqual([0] * 3, info['target_luns'])
        self.assertTrue(self.truth(export)[_HOST].intact)


class MutualTest(lio_backend.Lio):
    """Mutual CHAP, with which the target authenticates itself too."""

    def test_mutual_chap_set_and_removed(self):
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        plain = self.settings
        self.settings = dataclasses.replace(plain, mutual_chap_username='storage',
                                            mutual_chap_password='a secret of the target')
        self.target = self.make()
        self.assertFalse(self.truth(export)[grant.initiator].intact)
        self.target.grant(export, grant)
        self.assertTrue(self.truth(export)[grant.initiator].intact)
        self.assertEqual(['storage', 'a secret of the target'], self.mutual(export, grant))
        self.assertTrue(self.logs_in(export, grant))
        self.settings = plain
        self.target = self.make()
        self.target.grant(export, grant)
        self.assertEqual(['NULL', 'NULL'], self.mutual(export, grant))

    def mutual(self, export, grant):
        found = []
        for name in ('userid_mutual', 'password_mutual'):
            with open(f'{self.entry(export, grant)}/auth/{name}', encoding='ascii') as file:
                found.append(file.read().strip())
        return found
