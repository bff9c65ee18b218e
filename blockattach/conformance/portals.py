"""Part of the conformance kit on the portals of a target: one portal, or several paths."""
import dataclasses
from typing import Any

from blockattach.conformance import target_base
from blockattach.storage.domain import connection

_SIZE = 4096


class PortalContract(target_base.TargetBase):
    """Behaviours of a target regarding the portals in a connection."""

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
        export = self.an_export()
        made = self.target.grant(export, self.a_grant(export))
        self._need_paths(made)
        return made, made.to_dict()

    def _need_paths(self, connected: connection.Connection) -> None:
        if len(connected.portals) < 2:
            self.leaves_out('multipath', 'the target has only one portal')


class PathContract(PortalContract):
    """Behaviours of a target that a real host sees on each path. The tests need `host`."""

    def setUp(self) -> None:
        super().setUp()
        found = self.host()
        if found is None:
            self.leaves_out('the view of initiators', 'no initiator is available for the target')
        self.real: target_base.Host = found

    def held(self, export: connection.Export, grant: connection.Grant,
             read_only: bool = False) -> target_base.Held:
        """Grant access, log in, and return the session."""
        made = self.target.grant(export, grant)
        session = self.real.hold(made, grant.initiator, grant.credential, read_only)
        self.addCleanup(session.close)
        return session

    def on_paths(self, export: connection.Export,
                 grant: connection.Grant) -> list[target_base.Held]:
        """Grant access, log in at every portal, and return the sessions.

        The behaviour is skipped if the target has only one portal.
        """
        made = self.target.grant(export, grant)
        self._need_paths(made)
        sessions = []
        for portal in made.portals:
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
