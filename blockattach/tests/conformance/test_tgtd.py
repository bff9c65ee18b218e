"""Own tgtd: start, reuse, crash and stop, and recovery of unfinished targets."""
import dataclasses
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from unittest import mock

from blockattach.conformance import target
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgt_socket
from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.conformance import settings
from blockattach.tests.conformance import test_tgt

_RW = connection.AccessMode.RW
_STARTER = """
import sys
from blockattach.storage.drivers.targets import tgtd
daemon = tgtd.Tgtd(sys.argv[1], ['127.0.0.1'], 0)
daemon.start()
print(daemon.client().pid(), flush=True)
sys.stdin.read()
"""
# The header announces eight bytes of text, which do not follow.
_LOGIN = bytes((0x43, 0x87, 0, 0, 0, 0, 0, 8)) + bytes(40)


def _sockets(pid: int) -> int:
    """Return the number of sockets of a process."""
    return sum(os.readlink(file).startswith('socket:') for file in os.scandir(f'/proc/{pid}/fd'))


def _kill(client: tgt_socket.Client) -> None:
    process = os.pidfd_open(client.pid())
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 10)
    finally:
        os.close(process)


class TgtDaemonTest(test_tgt.Tgt, target.DaemonContract):
    def crash(self) -> None:
        _kill(self.target._client())

    def test_session_continues_after_tgtd_crash_and_grant(self) -> None:
        export, real = self.an_export(), self.host()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        session = real.hold(made, grant.initiator, grant.credential)
        self.addCleanup(session.close)
        self.assertTrue(session.can_write(0, 4096, 1))
        self.crash()
        self.target = self.make()
        self.target.grant(export, grant)
        again = real.hold(made, grant.initiator, grant.credential)
        self.addCleanup(again.close)
        self.assertTrue(again.can_read(0, 4096, 1))


class TgtdTest(test_tgt.Tgt):
    """Process of tgtd."""

    def daemon(self, **changes: object) -> tgtd.Tgtd:
        state = dataclasses.replace(self.settings, **changes)
        made = tgtd.Tgtd(state.state_dir, (
            state.target_ip_address, *state.target_secondary_ip_addresses), state.target_port)
        self.addCleanup(made.stop)
        return made

    def test_restart_restores_grants_at_same_portal(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        self.target.stop()
        self.target.start()
        self.assertEqual(made, self.target.grant(export, grant))

    def test_first_free_port_taken_and_remembered(self) -> None:
        one = self.daemon(state_dir=settings.folder(self), target_port=0)
        other_dir = settings.folder(self)
        other = self.daemon(state_dir=other_dir, target_port=0)
        one.start()
        other.start()
        portals = other.client().portals()
        self.assertNotEqual(one.client().portals(), portals)
        other.stop()
        again = self.daemon(state_dir=other_dir, target_port=0)
        self.assertEqual(sorted(portals), sorted(again.portals()))

    def test_tgtd_listens_on_configured_portals_only(self) -> None:
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        self.assertEqual(self.portals(), made.portals)
        self.assertEqual(sorted(made.portals), sorted(self.target._client().portals()))

    def test_changed_port_applied_live(self) -> None:
        pid = self.target._client().pid()
        port = settings.free_port()
        moved = self.daemon(target_port=port)
        moved.start()
        self.assertEqual(pid, moved.client().pid())
        self.assertEqual(sorted(self.portals(port)), sorted(moved.client().portals()))

    def test_removed_address_applied_live(self) -> None:
        pid = self.target._client().pid()
        narrowed = self.daemon(target_secondary_ip_addresses=())
        narrowed.start()
        self.assertEqual(pid, narrowed.client().pid())
        self.assertEqual(self.portals()[:1], narrowed.client().portals())

    def test_port_used_at_one_address_skipped(self) -> None:
        one = self.daemon(state_dir=settings.folder(self), target_port=0,
                          target_secondary_ip_addresses=())
        one.start()
        with socket.socket() as taken:
            port = int(one.portals()[0].rpartition(':')[2]) + 1
            taken.bind(('127.0.0.2', port))
            taken.listen()
            other = self.daemon(state_dir=settings.folder(self), target_port=0,
                                target_secondary_ip_addresses=('127.0.0.2',))
            other.start()
            ports = {portal.rpartition(':')[2] for portal in other.client().portals()}
            self.assertEqual(1, len(ports))
            self.assertNotIn(str(port), ports)

    def test_running_tgtd_reused(self) -> None:
        pid = self.target._client().pid()
        found = self.daemon()
        found.start()
        self.assertEqual(pid, found.client().pid())
        found.stop()
        self.assertFalse(self.target.running())

    def test_status_check_leaves_no_connection(self) -> None:
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        address, _, port = made.portals[0].rpartition(':')
        client = self.target._client()
        with socket.create_connection((address, int(port))) as half:
            # tgtd reads only a part of a login, and waits for the rest.
            half.sendall(_LOGIN)
            # tgtd serves its clients in order. So it has met the login before this answer, and
            # later all clients before the last one.
            client.portals()
            pids = {client.pid() for _ in range(5)}
            client.portals()
            # Open are the portals, the socket of tgtd and the login, and perhaps the last client.
            self.assertLessEqual(_sockets(*pids), len(self.portals()) + 2 + 1)

    def test_tgtd_survives_killed_service_and_sigint(self) -> None:
        state_dir = settings.folder(self)
        after = self.daemon(state_dir=state_dir, target_port=0)
        starter = subprocess.Popen(
            [sys.executable, '-c', _STARTER, state_dir], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        with starter:
            pid = int(starter.stdout.readline())
            os.killpg(starter.pid, signal.SIGINT)
            starter.kill()
        self.assertTrue(after.running())
        after.start()
        self.assertEqual(pid, after.client().pid())

    def test_port_in_use_reported_and_nothing_left_running(self) -> None:
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            port = taken.getsockname()[1]
            refused = self.daemon(state_dir=settings.folder(self), target_port=port)
            with self.assertRaisesRegex(errors.ConfigurationError, f'127.0.0.1:{port}.*in use'):
                refused.start()
        refused.stop()
        self.assertFalse(refused.running())

    def test_foreign_address_reported(self) -> None:
        refused = self.daemon(state_dir=settings.folder(self), target_ip_address='192.0.2.1')
        with self.assertRaisesRegex(errors.ConfigurationError, '192.0.2.1'):
            refused.start()

    def test_missing_tgtd_names_package(self) -> None:
        missing = self.daemon(state_dir=settings.folder(self), target_port=settings.free_port())
        with (mock.patch('shutil.which', return_value=None),
              self.assertRaisesRegex(errors.ConfigurationError, 'package tgt')):
            missing.start()

    def test_long_state_directory_uses_runtime_directory(self) -> None:
        state_dir = os.path.join(settings.folder(self), 'long' * 30)
        runtime = settings.folder(self)
        first = self.daemon(state_dir=state_dir, target_port=settings.free_port())
        second = self.daemon(state_dir=state_dir)
        with mock.patch.dict(os.environ, {'XDG_RUNTIME_DIR': runtime}):
            first.start()
            self.assertTrue(second.running())
            path = first.client().path
            self.assertLess(len(path), 108)
            self.assertEqual(0o700, os.stat(os.path.dirname(path)).st_mode & 0o777)
            self.assertEqual(path, second.client().path)
            second.stop()
        self.assertFalse(first.running())

    def test_foreign_pid_in_pid_file_not_killed(self) -> None:
        self.target.stop()
        with subprocess.Popen(['sleep', '60']) as stranger:
            with open(f'/proc/{stranger.pid}/stat', encoding='utf-8') as file:
                born = file.read().rpartition(')')[2].split()[19]
            with open(os.path.join(self.settings.state_dir, 'tgtd', 'pid'), 'w',
                      encoding='utf-8') as file:
                file.write(f'{stranger.pid} {born}\n')
            self.target.stop()
            self.assertIsNone(stranger.poll())
            stranger.kill()

    def test_given_tgtd_used_but_not_managed(self) -> None:
        given = dataclasses.replace(self.settings, tgt_socket=self.target._client().path,
                                    state_dir=settings.folder(self))
        user = tgt.TgtTarget(given)
        user.start()
        export = self.an_export()
        user.grant(export, self.a_grant(export))
        self.assertEqual(self.target.exports(), user.exports())
        user.stop()
        self.assertTrue(self.target.running())
        self.assertEqual([], os.listdir(given.state_dir))
        self.target.stop()
        with self.assertRaisesRegex(errors.ConfigurationError, 'tgt_socket'):
            user.start()


class HalfMadeTest(test_tgt.Tgt):
    """Steps interrupted by the death of the service, which the next process repeats or reverts."""

    GRANT_STEPS = ('after_target', 'after_initiator', 'after_account', 'after_lun', 'after_mode',
                   'after_grant')
    REVOKE_STEPS = ('after_shut', 'after_delete')

    def stop_at(self, step: str) -> None:
        def crash() -> None:
            raise KeyboardInterrupt

        failpoints.arm(f'drivers.tgt.{step}', crash)
        self.addCleanup(failpoints.disarm, f'drivers.tgt.{step}')

    def test_interrupted_grant_gives_no_access_until_repeated(self) -> None:
        real = self.host()
        for step in self.GRANT_STEPS[:-1]:
            with self.subTest(step=step):
                export = self.an_export()
                grant = self.a_grant(export, mode=connection.AccessMode.RO)
                self.stop_at(step)
                with self.assertRaises(KeyboardInterrupt):
                    self.target.grant(export, grant)
                failpoints.disarm(f'drivers.tgt.{step}')
                self._assert_not_intact(export)
                made = connection.Connection(
                    'iscsi', self.portals(),
                    f'{self.settings.target_prefix}{export.name}', 1)
                for credential in (grant.credential, None):
                    self.assertFalse(real.can_log_in(made, grant.initiator, credential))
                self.assertEqual(made, self.target.grant(export, grant))
                self.assertTrue(real.can_log_in(made, grant.initiator, grant.credential))

    def test_interrupted_grant_revocable(self) -> None:
        for step in self.GRANT_STEPS[1:]:
            with self.subTest(step=step):
                export = self.an_export()
                grant = self.a_grant(export)
                self.stop_at(step)
                with self.assertRaises(KeyboardInterrupt):
                    self.target.grant(export, grant)
                failpoints.disarm(f'drivers.tgt.{step}')
                self.target.revoke(export.volume_id, grant.initiator)
                self.assertEqual((), self.target.exports())

    def test_interrupted_revoke_gives_no_access_until_repeated(self) -> None:
        real = self.host()
        for step in self.REVOKE_STEPS:
            with self.subTest(step=step):
                export = self.an_export()
                grant = self.a_grant(export)
                made = self.target.grant(export, grant)
                session = real.hold(made, grant.initiator, grant.credential)
                self.stop_at(step)
                with self.assertRaises(KeyboardInterrupt):
                    self.target.revoke(export.volume_id, grant.initiator)
                failpoints.disarm(f'drivers.tgt.{step}')
                for credential in (grant.credential, None):
                    self.assertFalse(real.can_log_in(made, grant.initiator, credential))
                self.target.revoke(export.volume_id, grant.initiator)
                self.assertEqual((), self.target.exports())
                self.assertFalse(session.can_write(0, 4096, 1))
                session.close()
                renewed = self.a_grant(export)
                again = dataclasses.replace(renewed, credential=connection.Credential(
                    grant.credential.username, secrets.token_hex(8)))
                self.target.grant(export, again)
                self.assertTrue(real.can_log_in(made, grant.initiator, again.credential))
                self.target.unexport(export.volume_id)

    def test_target_without_account_repaired(self) -> None:
        real = self.host()
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        self.target._client().delete_account(grant.credential.username)
        self.assertTrue(real.can_log_in(made, grant.initiator, None))
        self._assert_not_intact(export)
        self.target.grant(export, grant)
        self.assertFalse(real.can_log_in(made, grant.initiator, None))
        self.assertTrue(real.can_log_in(made, grant.initiator, grant.credential))

    def test_account_of_other_target_rejected(self) -> None:
        real = self.host()
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        thief = dataclasses.replace(self.a_grant(export, 1), credential=connection.Credential(
            grant.credential.username, secrets.token_hex(8)))
        with self.assertRaises(errors.BackendRefused):
            self.target.grant(export, thief)
        self.assertEqual({grant.initiator: _RW}, self.granted(export))
        self.assertTrue(real.can_log_in(made, grant.initiator, grant.credential))
        self.assertFalse(real.can_log_in(made, grant.initiator, None))

    def test_target_of_earlier_release_admits_both_spellings(self) -> None:
        real = self.host()
        export = self.an_export()
        grant = self.a_grant(export)
        sent = grant.initiator.replace('host', 'Host')
        made = self.target.grant(export, grant)
        client = self.target._client()
        [found] = client.targets()
        client.unbind_initiator(found.tid, grant.initiator)
        client.bind_initiator(found.tid, sent)
        session = real.hold(made, sent, grant.credential)
        self.addCleanup(session.close)
        grant = dataclasses.replace(grant, spellings=frozenset({sent}))
        actual = self.target.exports()[0].grants
        self.assertEqual([(grant.initiator, 1)],
                         [(one.initiator, one.sessions) for one in actual])
        self.assertEqual({(export.volume_id, grant.initiator)},
                         connection.difference([grant], actual)[0])
        self.target.grant(export, grant)
        self.assertEqual((set(), set()), connection.difference(
            [grant], self.target.exports()[0].grants))
        self.assertTrue(session.can_write(0, 4096, 1))
        self.assertTrue(real.can_log_in(made, grant.initiator, grant.credential))

    def test_missing_device_rejected_and_leaves_nothing(self) -> None:
        export = dataclasses.replace(self.an_export(), device='/dev/null/volume')
        with self.assertRaises(errors.BackendRefused):
            self.target.grant(export, self.a_grant(export))
        self.assertEqual((), self.target.exports())

    def test_parameters_in_initiator_name_rejected(self) -> None:
        export = self.an_export()
        for name in ('iqn.a:b,initiator-address=ALL', 'iqn.a:b initiator-name=c', 'iqn.a:b\n', ''):
            with self.assertRaises(errors.BackendRefused):
                self.target.grant(export, dataclasses.replace(self.a_grant(export),
                                                              initiator=name))
        self.assertEqual((), self.target.exports())

    def test_foreign_targets_hidden_and_kept(self) -> None:
        client = self.target._client()
        client.add_target(7, 'iqn.2026-01.org.example:somebody')
        export = self.an_export()
        self.target.grant(export, self.a_grant(export))
        self.target.unexport(export.volume_id)
        self.assertEqual((), self.target.exports())
        self.assertEqual(['iqn.2026-01.org.example:somebody'],
                         [found.name for found in client.targets()])

    def test_target_id_of_foreign_target_skipped(self) -> None:
        client = self.target._client()
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        [ours] = client.targets()
        self.target.unexport(export.volume_id)
        client.add_target(ours.tid, 'iqn.2026-01.org.example:somebody')
        self.target.grant(export, grant)
        self.assertEqual({grant.initiator: _RW}, self.granted(export))
        self.target.revoke(export.volume_id, grant.initiator)
        self.assertEqual([ours.tid], [found.tid for found in client.targets()])

    def _assert_not_intact(self, export: connection.Export) -> None:
        for found in self.target.exports():
            if found.volume_id == export.volume_id:
                self.assertFalse(any(grant.intact for grant in found.grants))
