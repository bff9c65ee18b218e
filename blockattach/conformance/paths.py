"""Parts of the conformance kit for targets: initiator names and portals."""
import dataclasses
import secrets
from typing import Any

from blockattach.conformance import target_base
from blockattach.platform import errors
from blockattach.storage.domain import connection

_SIZE = 4096


def in_capitals(grant: connection.Grant) -> connection.Grant:
    """Return a copy of a grant that also admits the initiator name in upper case."""
    prefix, _, name = grant.initiator.partition(':')
    return dataclasses.replace(grant, spellings=frozenset({f'{prefix}:{name.upper()}'}))


class InitiatorContract(target_base.TargetBase):
    """Behaviors of a target regarding initiator names."""

    def test_initiator_sent_in_another_case_has_one_grant(self) -> None:
        # Initiator names are the same name in upper and lower case (RFC 7143, 4.2.7.1).
        export = self.an_export()
        plain = self.a_grant(export)
        grant = in_capitals(plain)
        for one in (plain, grant, grant):
            made = self.target.grant(export, one)
        self.assertEqual(made, self.target.grant(export, plain))
        [found] = [found for found in self.target.exports()
                   if found.volume_id == export.volume_id]
        self.assertEqual([plain.initiator], [one.initiator for one in found.grants])
        self.assertEqual((set(), set()), connection.difference([grant], found.grants))
        self.target.revoke(export.volume_id, plain.initiator)
        self.assertEqual({}, self.granted(export))

    def test_second_initiator_is_admitted_or_refused_as_the_target_says(self) -> None:
        export = self.an_export()
        first = self.a_grant(export)
        second = dataclasses.replace(
            first, alias='-00000001', initiator='iqn.2026-01.org.example:second',
            credential=connection.Credential(f'user{secrets.token_hex(8)}', secrets.token_hex(8)))
        self.target.grant(export, first)
        if not self.target.multiattach:
            with self.assertRaises(errors.BackendRefused):
                self.target.grant(export, second)
            self.assertEqual({first.initiator: first.mode}, self.granted(export))
            self.target.revoke(export.volume_id, first.initiator)
        self.target.grant(export, second)
        expected = (first, second) if self.target.multiattach else (second,)
        self.assertEqual({one.initiator: one.mode for one in expected}, self.granted(export))


class PortalContract(target_base.TargetBase):
    """Behaviors of a target regarding the portals in a connection."""

    def test_each_portal_is_listed_once(self) -> None:
        export = self.an_export()
        portals = self.target.grant(export, self.a_grant(export)).portals
        self.assertEqual(sorted(set(portals)), sorted(portals))
        for portal in portals:
            self.assertRegex(portal, r'^(\[[0-9a-f:.]+\]|[^:\s]+):\d+$')

    def test_every_host_and_volume_gets_the_same_portals(self) -> None:
        one, two = self.an_export(), self.an_export()
        portals = {self.target.grant(export, self.a_grant(export, number)).portals
                   for export in (one, two) for number in range(2)}
        self.assertEqual(1, len(portals))

    def test_lists_tell_of_every_path_and_begin_with_the_first(self) -> None:
        made, info = self._several()
        self.assertEqual(list(made.portals), info['target_portals'])
        self.assertEqual(info['target_portal'], info['target_portals'][0])
        self.assertEqual([made.target_name] * len(made.portals), info['target_iqns'])
        self.assertEqual([made.lun] * len(made.portals), info['target_luns'])

    def _several(self) -> tuple[connection.Connection, dict[str, Any]]:
        # `to_dict` has lists only if there are several portals.
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        self._need_paths(made)
        return made, made.to_dict()

    def _need_paths(self, connected: connection.Connection) -> None:
        if len(connected.portals) < 2:
            self.leaves_out('multipath', 'the target has only one portal')


class PathContract(PortalContract):
    """Behaviors of a target that a real initiator sees at each portal.

    The behaviors are skipped unless `host` returns an initiator.
    """

    def setUp(self) -> None:
        super().setUp()
        found = self.host()
        if found is None:
            self.leaves_out('the view of initiators', 'no initiator is available for the target')
        self.real: target_base.Host = found

    def held(self, export: connection.Export, grant: connection.Grant,
             read_only: bool = False) -> target_base.Held:
        """Grant an initiator access, log in as this initiator, and return the session."""
        made = self.target.grant(export, grant)
        session = self.real.hold(made, grant.initiator, grant.credential, read_only)
        self.addCleanup(session.close)
        return session

    def on_paths(self, export: connection.Export,
                 grant: connection.Grant) -> list[target_base.Held]:
        """Grant an initiator access, log in at every portal, and return the sessions.

        The behavior is skipped if the target has only one portal.
        """
        made = self.target.grant(export, grant)
        self._need_paths(made)
        sessions = []
        for portal in made.portals:
            # The initiator logs in at the first portal of a connection only.
            session = self.real.hold(dataclasses.replace(made, portals=(portal,)),
                                     grant.initiator, grant.credential)
            self.addCleanup(session.close)
            sessions.append(session)
        return sessions

    def test_every_path_leads_to_the_same_bytes(self) -> None:
        export = self.an_export()
        sessions = self.on_paths(export, self.a_grant(export))
        for number, session in enumerate(sessions):
            self.assertTrue(session.can_write(number * _SIZE, _SIZE, number + 1))
        for session in sessions:
            for number in range(len(sessions)):
                self.assertTrue(session.can_read(number * _SIZE, _SIZE, number + 1))

    def test_a_revoke_ends_the_sessions_of_every_path(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        sessions = self.on_paths(export, grant)
        self.target.revoke(export.volume_id, grant.initiator)
        for session in sessions:
            self.assertFalse(session.can_write(0, _SIZE, 0x11))

    def test_a_narrowed_mode_holds_on_every_path(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export)
        sessions = self.on_paths(export, grant)
        self.target.grant(export, dataclasses.replace(grant, mode=connection.AccessMode.RO))
        for session in sessions:
            self.assertFalse(session.can_write(0, _SIZE, 0x22))
