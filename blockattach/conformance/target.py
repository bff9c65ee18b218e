"""Conformance kit for targets.

A driver is tested by a subclass of `TargetContract` whose `make` returns a driver for a target
without exports. `AccessContract` adds tests with a real initiator (`host`). They prove which
initiators have access, which may write, and that only the sessions of revoked initiators end.
"""
import dataclasses
import secrets
import threading
import uuid
from collections.abc import Sequence

from blockattach.conformance import paths
from blockattach.conformance import target_base
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base

_RW = connection.AccessMode.RW
_RO = connection.AccessMode.RO
_Held = connection.HostReservation
_SIZE = 4096


TargetBase = target_base.TargetBase

CAPABILITIES = frozenset({'daemon', 'host_reservations', 'live_resize', 'native_blocks',
                          'unmap'})
"""Capabilities of a target that the parts of this kit can prove."""


class TargetContract(paths.PortalContract, paths.InitiatorContract):
    """Behaviors of `base.ExportTarget`."""

    def test_every_declared_capability_can_be_proved_by_this_kit(self) -> None:
        self.assertLessEqual(self.report.declared, CAPABILITIES)

    def test_an_export_lets_nobody_in(self) -> None:
        export = self.an_export()
        self.target.export(export)
        self.assertEqual({}, self.granted(export))

    def test_a_repeated_export_leaves_grants_as_they_are(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export, mode=_RO)
        self.target.grant(export, grant)
        self.target.export(export)
        self.assertEqual({grant.initiator: _RO}, self.granted(export))

    def test_a_grant_says_how_to_connect(self) -> None:
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        self.assertEqual('iscsi', made.driver_volume_type)
        self.assertRegex(made.portals[0], r'^\S+:\d+$')
        self.assertIn(export.volume_id, made.target_name)
        self.assertGreaterEqual(made.lun, 0)

    def test_a_grant_needs_no_export_before(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.assertEqual({grant.initiator: _RW}, self.granted(export))

    def test_a_repeated_grant_changes_nothing(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        first = self.target.grant(export, grant)
        before = self.target.exports()
        self.assertEqual(first, self.target.grant(export, grant))
        self.assertEqual(before, self.target.exports())

    def test_a_repeated_grant_in_another_mode_changes_the_mode_only(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        other = self.a_grant(export, 1)
        self.target.grant(export, other)
        first = self.target.grant(export, grant)
        for mode in (_RO, _RW, _RO):
            again = self.target.grant(export, dataclasses.replace(grant, mode=mode))
            self.assertEqual(first, again)
            self.assertEqual({grant.initiator: mode, other.initiator: _RW}, self.granted(export))

    def test_each_initiator_has_its_own_mode(self) -> None:
        export = self.an_export()
        for number, mode in enumerate((_RW, _RO, _RW)):
            self.target.grant(export, self.a_grant(export, number, mode))
        granted = self.granted(export)
        self.assertEqual([_RW, _RO, _RW], [granted[name] for name in sorted(granted)])

    def test_a_grant_of_one_volume_lets_nobody_in_to_another(self) -> None:
        export, other = self.an_export(), self.an_export()
        self.target.grant(export, self.a_grant(export))
        self.target.export(other)
        self.assertEqual({}, self.granted(other))

    def test_many_initiators_join_at_the_same_moment(self) -> None:
        export = self.an_export()
        grants = [self.a_grant(export, number) for number in range(24)]
        made: list[connection.Connection] = []
        # Without the barrier, the first calls would return before the last threads start.
        start = threading.Barrier(len(grants))

        def join(grant: connection.Grant) -> None:
            start.wait(10)
            made.append(self.target.grant(export, grant))

        threads = [threading.Thread(target=join, args=(grant,)) for grant in grants]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(grants), len(made))
        self.assertEqual({grant.initiator: _RW for grant in grants}, self.granted(export))

    def test_a_revoke_ends_one_grant_and_leaves_the_other(self) -> None:
        export = self.an_export()
        gone, kept = self.a_grant(export), self.a_grant(export, 1, _RO)
        self.target.grant(export, gone)
        self.target.grant(export, kept)
        self.target.revoke(export.volume_id, gone.initiator)
        self.assertEqual({kept.initiator: _RO}, self.granted(export))

    def test_a_revoke_leaves_the_initiators_grants_on_other_volumes(self) -> None:
        export, other = self.an_export(), self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.target.grant(other, self.a_grant(other))
        self.target.revoke(export.volume_id, grant.initiator)
        self.assertEqual({}, self.granted(export))
        self.assertEqual({grant.initiator: _RW}, self.granted(other))

    def test_a_repeated_revoke_is_a_success(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        for _ in range(2):
            self.target.revoke(export.volume_id, grant.initiator)
        self.assertEqual({}, self.granted(export))

    def test_revoking_without_a_grant_is_a_success(self) -> None:
        export = self.an_export()
        self.target.revoke(export.volume_id, 'iqn.2026-01.org.example:nobody')

    def test_a_revoked_initiator_may_be_granted_again_with_a_new_credential(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.target.revoke(export.volume_id, grant.initiator)
        self.target.grant(export, self.a_grant(export))
        self.assertEqual({grant.initiator: _RW}, self.granted(export))

    def test_an_unexport_shuts_out_all_of_this_volume_and_none_of_another(self) -> None:
        export, other = self.an_export(), self.an_export()
        for number in range(2):
            self.target.grant(export, self.a_grant(export, number))
        kept = self.a_grant(other)
        self.target.grant(other, kept)
        self.target.unexport(export.volume_id)
        self.assertEqual([other.volume_id], [found.volume_id for found in self.target.exports()])
        self.assertEqual({kept.initiator: _RW}, self.granted(other))

    def test_a_repeated_unexport_is_a_success(self) -> None:
        export = self.an_export()
        self.target.export(export)
        self.target.unexport(export.volume_id)
        self.target.unexport(export.volume_id)

    def test_the_truth_holds_no_credential(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        for text in (repr(self.target.exports()), repr(made), repr(made.to_dict())):
            self.assertNotIn(grant.credential.password, text)

    def test_the_truth_names_the_account_if_the_target_tells_it(self) -> None:
        export = self.an_export()
        grants = [self.a_grant(export, number) for number in range(2)]
        for grant in grants:
            self.target.grant(export, grant)
        accounts = {found.initiator: found.account for offered in self.target.exports()
                    for found in offered.grants}
        for grant in grants:
            self.assertIn(accounts[grant.initiator], (None, grant.credential.username))

    def test_the_truth_is_the_same_to_a_service_started_anew(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export, mode=_RO)
        made = self.target.grant(export, grant)
        before = self.target.exports()
        self.target = self.make()
        self.assertEqual(before, self.target.exports())
        self.assertEqual(made, self.target.grant(export, grant))

    def test_a_name_held_by_another_initiator_is_refused_and_left_alone(self) -> None:
        export = self.an_export()
        holder = self.a_grant(export)
        intruder = dataclasses.replace(self.a_grant(export, 1), alias=holder.alias)
        self.target.grant(export, holder)
        # Only some targets use the alias as part of a name. Other targets can
        # serve both initiators.
        try:
            self.target.grant(export, intruder)
        except errors.BackendRefused:
            self.assertEqual({holder.initiator: _RW}, self.granted(export))
        else:
            self.assertEqual({holder.initiator: _RW, intruder.initiator: _RW},
                             self.granted(export))


class AccessContract(paths.PathContract):
    """Behaviors of a target that initiators see: access, modes and sessions.

    The behaviors are skipped unless `host` returns an initiator.
    """

    def test_initiator_logs_in_by_each_form_that_was_sent(self) -> None:
        export = self.an_export()
        grant = paths.in_capitals(self.a_grant(export))
        made = self.target.grant(export, grant)
        sessions = []
        for number, name in enumerate(grant.admitted, 1):
            sessions.append(self.real.hold(made, name, grant.credential))
            self.addCleanup(sessions[-1].close)
            [found] = [found for found in self.target.exports()
                       if found.volume_id == export.volume_id]
            self.assertEqual([grant.initiator], [one.initiator for one in found.grants])
            # Some targets report the presence of a session, not the number of sessions.
            self.assertIn(found.grants[0].sessions, {1, number})
            self.assertEqual((set(), set()), connection.difference([grant], found.grants))
        self.target.revoke(export.volume_id, grant.initiator)
        for session in sessions:
            self.assertFalse(session.can_write(0, _SIZE, 0x01))
        for name in grant.admitted:
            self.assertFalse(self.real.can_log_in(made, name, grant.credential))

    def test_only_the_right_name_with_the_right_secret_logs_in(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        wrong = dataclasses.replace(grant.credential, password=secrets.token_hex(8))
        stranger = 'iqn.2026-01.org.example:stranger'
        self.assertTrue(self.real.can_log_in(made, grant.initiator, grant.credential))
        self.assertFalse(self.real.can_log_in(made, grant.initiator, wrong))
        self.assertFalse(self.real.can_log_in(made, grant.initiator, None))
        self.assertFalse(self.real.can_log_in(made, stranger, grant.credential))

    def test_one_initiators_credential_is_refused_for_another(self) -> None:
        export = self.an_export()
        one, two = self.a_grant(export), self.a_grant(export, 1)
        made = self.target.grant(export, one)
        self.target.grant(export, two)
        self.assertFalse(self.real.can_log_in(made, two.initiator, one.credential))
        self.assertFalse(self.real.can_log_in(made, one.initiator, two.credential))

    def test_all_see_the_same_bytes(self) -> None:
        export = self.an_export()
        writer = self.held(export, self.a_grant(export))
        # An initiator such as QEMU's cannot open a write-protected unit for writing.
        reader = self.held(export, self.a_grant(export, 1, _RO), read_only=True)
        self.assertTrue(writer.can_write(0, _SIZE, 0x5a))
        self.assertTrue(reader.can_read(0, _SIZE, 0x5a))

    def test_the_target_itself_refuses_the_writes_of_a_reader(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        # The session is opened for writing, so the initiator itself would send any write.
        session = self.held(export, grant)
        self.assertTrue(session.can_write(0, _SIZE, 0x11))
        self.target.grant(export, dataclasses.replace(grant, mode=_RO))
        self.assertFalse(session.can_write(0, _SIZE, 0x22))
        self.assertTrue(session.can_read(0, _SIZE, 0x11))

    def test_a_mode_widened_live_lets_the_session_write(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        session = self.held(export, grant)
        for mode in (_RO, _RW):
            self.target.grant(export, dataclasses.replace(grant, mode=mode))
        self.assertTrue(session.can_write(0, _SIZE, 0x33))

    def test_a_narrowed_mode_of_one_leaves_the_writes_of_another(self) -> None:
        export = self.an_export()
        kept = self.held(export, self.a_grant(export))
        self.target.grant(export, self.a_grant(export, 1, _RO))
        self.assertTrue(kept.can_write(0, _SIZE, 0x44))

    def test_one_joins_while_another_writes_on(self) -> None:
        export = self.an_export()
        first = self.held(export, self.a_grant(export))
        self.assertTrue(first.can_write(0, _SIZE, 0x01))
        second = self.held(export, self.a_grant(export, 1))
        self.assertTrue(first.can_write(0, _SIZE, 0x02))
        self.assertTrue(second.can_read(0, _SIZE, 0x02))

    def test_one_is_removed_live_and_another_writes_on(self) -> None:
        export = self.an_export()
        kept_grant, gone_grant = self.a_grant(export), self.a_grant(export, 1)
        made = self.target.grant(export, gone_grant)
        kept, gone = self.held(export, kept_grant), self.held(export, gone_grant)
        self.assertTrue(gone.can_write(0, _SIZE, 0x01))
        self.target.revoke(export.volume_id, gone_grant.initiator)
        self.assertFalse(gone.can_write(0, _SIZE, 0x02))
        self.assertTrue(kept.can_read(0, _SIZE, 0x01))
        self.assertTrue(kept.can_write(0, _SIZE, 0x03))
        self.assertFalse(
            self.real.can_log_in(made, gone_grant.initiator, gone_grant.credential))

    def test_sessions_are_counted(self) -> None:
        export = self.an_export()
        self.held(export, self.a_grant(export))
        self.target.grant(export, self.a_grant(export, 1))
        [found] = [found for found in self.target.exports()
                   if found.volume_id == export.volume_id]
        self.assertEqual([1, 0], [grant.sessions for grant in sorted(
            found.grants, key=lambda grant: grant.initiator)])

    def test_a_repeated_grant_leaves_the_session_alone(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        session = self.held(export, grant)
        self.assertTrue(session.can_write(0, _SIZE, 0x05))
        self.target.grant(export, grant)
        self.assertTrue(session.can_write(0, _SIZE, 0x06))

    def test_a_new_size_is_seen_once_nobody_uses_the_volume(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.grow_device(export.device, 2)
        session = self.held(dataclasses.replace(export, size_gb=2), grant)
        self.assertTrue(session.can_write(units.GIB, _SIZE, 0x07))

    def test_a_grant_after_an_extend_leaves_the_session_that_uses_the_old_size(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        session = self.held(export, grant)
        self.assertTrue(session.can_write(0, _SIZE, 0x08))
        self.grow_device(export.device, 2)
        self.target.grant(dataclasses.replace(export, size_gb=2), grant)
        self.assertTrue(session.can_write(0, _SIZE, 0x09))


class ResizeContract(TargetBase):
    """Behaviors of a target that implements `base.LiveResize`.

    `blockattach.conformance.scsi` tests that hosts see the new size.
    """

    def setUp(self) -> None:
        super().setUp()
        self.needs('live_resize')

    def resize(self, export: connection.Export) -> None:
        """Resize the export to 2 GiB, as the service does after extending the volume."""
        assert isinstance(self.target, base.LiveResize)
        self.target.resize(dataclasses.replace(export, size_gb=2))

    def test_a_resize_changes_no_grant(self) -> None:
        export = self.an_export()
        for number, mode in enumerate((_RW, _RO)):
            self.target.grant(export, self.a_grant(export, number, mode))
        before = self.target.exports()
        self.grow_device(export.device, 2)
        for _ in range(2):
            self.resize(export)
        self.assertEqual(before, self.target.exports())

    def test_a_resize_of_what_is_not_exported_is_a_success(self) -> None:
        self.resize(self.an_export())
        self.assertEqual((), self.target.exports())


class DaemonContract(TargetBase):
    """Behaviors of a target that implements `base.Daemon`."""

    provable = frozenset({'daemon'})

    def crash(self) -> None:
        """Kill the process of the target, even while it has sessions."""
        self.leaves_out('a crash of the target', 'crash is not implemented')

    def setUp(self) -> None:
        super().setUp()
        self.needs('daemon')

    def daemon(self) -> base.Daemon:
        assert isinstance(self.target, base.Daemon)
        return self.target

    def test_a_repeated_start_finds_it_running_and_leaves_its_grants(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.daemon().start()
        self.assertTrue(self.daemon().running())
        self.assertTrue(self.daemon().has_process())
        self.assertEqual({grant.initiator: _RW}, self.granted(export))
        self.proves('daemon')

    def test_stopped_it_is_not_running_and_may_be_stopped_again(self) -> None:
        self.daemon().stop()
        self.assertFalse(self.daemon().running())
        self.assertFalse(self.daemon().has_process())
        self.daemon().stop()

    def test_what_is_asked_of_it_while_it_is_away_is_uncertain(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        self.crash()
        self.assertFalse(self.daemon().running())
        self.assertFalse(self.daemon().has_process())
        # A target that does not answer may still have executed the request, so the driver must
        # raise BackendUncertain.
        with self.assertRaises(errors.BackendUncertain):
            self.target.grant(export, grant)
        with self.assertRaises(errors.BackendUncertain):
            self.target.revoke(export.volume_id, grant.initiator)
        with self.assertRaises(errors.BackendUncertain):
            self.target.exports()

    def test_after_a_crash_repeated_grants_restore_all(self) -> None:
        export = self.an_export()
        grants = [self.a_grant(export, number, mode) for number, mode in enumerate((_RW, _RO))]
        before = [self.target.grant(export, grant) for grant in grants]
        truth = self.target.exports()
        self.crash()
        self.daemon().start()
        # The daemon keeps its targets in memory. The service grants access again, and hosts then
        # log in with the connections that they already have.
        self.assertEqual({}, self.granted(export))
        self.assertEqual(before, [self.target.grant(export, grant) for grant in grants])
        self.assertEqual(truth, self.target.exports())


class ReservationContract(TargetBase):
    """Behaviors of a target that implements `base.HostReservations`."""

    provable = frozenset({'host_reservations'})

    def registers(self, export: connection.Export, grants: Sequence[connection.Grant]) -> None:
        """Register the hosts of ``grants``, and no other hosts, for persistent reservations.

        The hosts have access to the volume already.
        """
        self.leaves_out('registrations', 'registers is not implemented')

    def reserves(self, export: connection.Export, holder: connection.Grant) -> None:
        """Reserve the volume for one of the registered hosts."""
        self.leaves_out('reservations', 'reserves is not implemented')

    def setUp(self) -> None:
        super().setUp()
        self.needs('host_reservations')
        self.export = self.an_export()
        self.grants = [self.a_grant(self.export, number) for number in range(3)]
        for grant in self.grants:
            self.target.grant(self.export, grant)

    def held(self) -> list[connection.HostReservation | None]:
        """Return the role of each host in the persistent reservations that the target reports."""
        assert isinstance(self.target, base.HostReservations)
        found = self.target.reservations(self.export.volume_id)
        assert found is not None
        return [found.of(grant.initiator) for grant in self.grants]

    def test_a_host_without_a_registration_is_reported_as_such(self) -> None:
        self.assertEqual([_Held.NONE] * 3, self.held())

    def test_registrations_and_the_holder_are_reported(self) -> None:
        self.registers(self.export, self.grants[:2])
        self.assertEqual([_Held.REGISTERED, _Held.REGISTERED, _Held.NONE], self.held())
        self.reserves(self.export, self.grants[0])
        self.assertEqual([_Held.HOLDER, _Held.REGISTERED, _Held.NONE], self.held())
        self.proves('host_reservations')

    def test_a_revoked_initiator_holds_nothing_any_more(self) -> None:
        self.registers(self.export, self.grants[:2])
        self.reserves(self.export, self.grants[0])
        self.target.revoke(self.export.volume_id, self.grants[0].initiator)
        self.assertEqual([_Held.NONE, _Held.REGISTERED, _Held.NONE], self.held())
        self.target.grant(self.export, self.grants[0])
        self.assertEqual([_Held.NONE, _Held.REGISTERED, _Held.NONE], self.held())

    def test_nothing_is_reported_of_a_volume_that_is_not_exported(self) -> None:
        assert isinstance(self.target, base.HostReservations)
        self.assertIsNone(self.target.reservations(str(uuid.uuid4())))
