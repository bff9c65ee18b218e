"""Contract of the tgt target with real initiators."""
import dataclasses
import os

from blockattach.conformance import scsi as kit_scsi
from blockattach.conformance import target
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgt_socket
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import initiator
from blockattach.testing import scsi
from blockattach.tests.conformance import settings


class Tgt(target.TargetBase):
    """Target contract on a new tgtd for each test."""

    def make(self) -> tgt.TgtTarget:
        if not hasattr(self, 'settings'):
            settings.outside_program(self, tgtd.program() is not None, 'tgtd')
            self.settings = dataclasses.replace(
                settings.settings(settings.folder(self), settings.free_port()),
                target_secondary_ip_addresses=settings.more_addresses())
        made = tgt.TgtTarget(self.settings)
        self.addCleanup(made.stop)
        made.start()
        return made

    def portals(self, port: int | None = None) -> tuple[str, ...]:
        """Return the portals of the target in their order."""
        return tuple(
            f'[{address}]:{port or self.settings.target_port}' if ':' in address
            else f'{address}:{port or self.settings.target_port}' for address in (
                self.settings.target_ip_address, *self.settings.target_secondary_ip_addresses))

    def make_device(self, volume_id: str, size_gb: int) -> str:
        device = os.path.join(self.settings.state_dir, f'volume-{volume_id}')
        with open(device, 'wb') as file:
            file.truncate(units.gib_to_bytes(size_gb))
        return device

    def grow_device(self, device: str, size_gb: int) -> None:
        os.truncate(device, units.gib_to_bytes(size_gb))

    def host(self) -> initiator.KitInitiator:
        settings.outside_program(self, initiator.available(), initiator.PROGRAM)
        return initiator.KitInitiator(timeout=60.0, comes_back=False)

    def commander(self) -> scsi.KitScsi:
        settings.outside_program(self, scsi.available(), 'libiscsi')
        return scsi.KitScsi()


class TgtAdoptionTest(Tgt):
    """Adoption of a target of another service, whose hosts share a credential."""

    def setUp(self):
        super().setUp()
        settings.outside_program(self, initiator.available(), initiator.PROGRAM)
        self.client = self.target._client()
        self.offered = self.an_export()
        self.credential = connection.Credential('someone', 'a-shared-secret')
        name = f'{self.settings.target_prefix}volume-{self.offered.volume_id}'
        self.client.add_target(1, name)
        self.client.add_account(*dataclasses.astuple(self.credential))
        self.client.bind_account(1, self.credential.username)
        self.client.add_lun(1, 1, self.offered.device)
        # tgt-admin binds the target for Cinder in this way.
        self.client._call(tgt_socket._Mode.TARGET, tgt_socket._Op.BIND, 'let all in',
                          'initiator-address=ALL', 1)
        self.found = connection.Connection('iscsi', self.portals(), name, 1)
        self.wanted = [dataclasses.replace(
            self.a_grant(self.offered, number), credential=self.credential, adopted=True)
            for number in range(2)]
        self.sessions = [self.open(grant.initiator) for grant in self.wanted]

    def open(self, name):
        session = initiator.Initiator(name, timeout=60.0).open({
            **self.found.to_dict(), 'auth_method': 'CHAP',
            'auth_username': self.credential.username,
            'auth_password': self.credential.password})
        self.addCleanup(session.close)
        return session

    def seen(self):
        """Return the session numbers of tgtd by initiator."""
        return {session.initiator: session.sid for target in self.client.targets()
                for session in target.sessions}

    def differences(self, *wanted):
        return connection.difference(wanted, [
            grant for export in self.target.exports() for grant in export.grants])

    def test_adopted_sessions_continue_and_others_refused(self):
        before = self.seen()
        self.assertEqual(2, len(self.differences(*self.wanted)[0]))
        for grant in self.wanted:
            for _ in range(2):
                self.assertEqual(self.found, self.target.grant(self.offered, grant))
        self.assertEqual((set(), set()), self.differences(*self.wanted))
        for number, session in enumerate(self.sessions):
            session.write(4096 * number, 4096, 0x11)
        self.assertEqual(before, self.seen())
        self.assertRaises(initiator.LoginRefused, self.open, 'iqn.2026-01.org.example:other')

    def test_revoke_of_adopted_host_keeps_other(self):
        for grant in self.wanted:
            self.target.grant(self.offered, grant)
        first, second = self.wanted
        self.target.revoke(self.offered.volume_id, first.initiator)
        self.sessions[1].write(0, 4096, 0x22)
        self.assertEqual({second.initiator}, set(self.granted(self.offered)))
        self.assertEqual((set(), set()), self.differences(second))
        self.target.revoke(self.offered.volume_id, second.initiator)
        self.assertEqual((), self.client.targets())

    def test_new_host_gets_own_target(self):
        self.target.grant(self.offered, self.wanted[0])
        new = self.a_grant(self.offered, 7)
        made = self.target.grant(self.offered, new)
        self.assertNotEqual(self.found.target_name, made.target_name)
        self.sessions[0].write(0, 4096, 0x33)

    def test_lost_adopted_target_recreated_under_its_name(self):
        for grant in self.wanted:
            self.target.grant(self.offered, grant)
        self.target.unexport(self.offered.volume_id)
        for grant in self.wanted:
            self.assertEqual(self.found, self.target.grant(self.offered, grant))
            self.open(grant.initiator).write(0, 4096, 0x44)
        self.assertEqual((set(), set()), self.differences(*self.wanted))


class TgtTargetTest(Tgt, target.TargetContract):
    pass


class TgtAccessTest(Tgt, target.AccessContract):
    pass


class TgtScsiTest(Tgt, kit_scsi.ScsiContract):
    pass
