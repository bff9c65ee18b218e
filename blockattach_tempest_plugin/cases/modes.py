"""Test cases of access modes: the requested, the stored and the permitted mode."""
from typing import Any

from blockattach_tempest_plugin.cases import base


class AccessModes(base.Cases):
    """Cases of the modes rw and ro."""

    def setUp(self) -> None:
        """Skip the test before microversion 3.54, which added the mode of an attachment."""
        super().setUp()
        self.needs_version('3.54')

    def mode(self, attachment: str) -> Any:
        return self.shown(attachment)['attach_mode']

    def access(self, attachment: str) -> Any:
        """Return the access mode in the connection information of the host."""
        return self.shown(attachment)['connection_info']['access_mode']

    def updated(self, volume: str, host: str = 'one', said: dict[str, str] | None = None,
                **fields: Any) -> str:
        """Create an attachment, update it with a connector, and return its ID."""
        attachment = self.reserve(volume, **fields)
        self.answered(self.api.update(attachment, base.connector(host, **(said or {}))))
        return attachment

    def test_reservation_with_mode_ro_has_attach_mode_ro(self) -> None:
        self.assertEqual('ro', self.mode(self.reserve(self.volume(), mode='ro')))

    def test_reservation_with_mode_rw_has_attach_mode_rw(self) -> None:
        self.assertEqual('rw', self.mode(self.reserve(self.volume(), mode='rw')))

    def test_reservation_without_a_mode_shows_null_as_a_string(self) -> None:
        # Cinder stores this text. An update with a connector replaces it.
        self.assertEqual('null', self.mode(self.reserve(self.volume())))

    def test_update_without_a_mode_sets_attach_mode_rw(self) -> None:
        self.assertEqual('rw', self.mode(self.updated(self.volume())))

    def test_update_sets_attach_mode_to_the_connector_mode(self) -> None:
        self.assertEqual('ro', self.mode(self.updated(self.volume(), said={'mode': 'ro'})))

    def test_requested_mode_overrides_the_connector_mode(self) -> None:
        attachment = self.updated(self.volume(), said={'mode': 'rw'}, mode='ro')
        self.assertEqual('ro', self.mode(attachment))

    def test_creation_with_a_connector_sets_the_requested_mode(self) -> None:
        self.assertEqual('ro', self.mode(self.connect(self.volume(), mode='ro')))

    def test_creation_with_a_connector_without_a_mode_sets_attach_mode_rw(self) -> None:
        self.assertEqual('rw', self.mode(self.connect(self.volume())))

    def test_creation_sets_attach_mode_to_the_connector_mode(self) -> None:
        attachment = self.reserve(self.volume(), connector=base.connector(mode='ro'))
        self.assertEqual('ro', self.mode(attachment))

    def test_connector_mode_is_used_before_microversion_3_54(self) -> None:
        attachment = self.reserve(self.volume(), version='3.27')
        self.answered(self.api.update(attachment, base.connector(mode='ro'), '3.27'))
        self.assertEqual('ro', self.mode(attachment))

    def test_completion_keeps_attach_mode(self) -> None:
        attachment = self.updated(self.volume(), mode='ro')
        self.answered(self.api.complete(attachment), 204)
        self.assertEqual('ro', self.mode(attachment))

    def test_connection_info_for_mode_rw_has_access_mode_rw(self) -> None:
        self.assertEqual('rw', self.access(self.updated(self.volume(), mode='rw')))

    def test_connection_info_for_mode_ro_has_access_mode_ro(self) -> None:
        self.assertEqual('ro', self.access(self.updated(self.volume(), mode='ro')))

    def test_hosts_with_different_modes_share_a_volume(self) -> None:
        volume = self.shared_volume()
        writes, reads = self.attach(volume, 'one', mode='rw'), self.attach(volume, 'two',
                                                                         mode='ro')
        self.assertEqual(('rw', 'ro'), (self.mode(writes), self.mode(reads)))

    def test_host_with_mode_ro_has_access_mode_ro_beside_a_host_with_mode_rw(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one', mode='rw')
        self.assertEqual('ro', self.access(self.attach(volume, 'two', mode='ro')))

    def test_two_hosts_attach_with_mode_rw(self) -> None:
        volume = self.shared_volume()
        made = [self.updated(volume, host, mode='rw') for host in ('one',)]
        # Cinder rejects the second host while the first one is attaching.
        self.answered(self.api.complete(made[0]), 204)
        made.append(self.updated(volume, 'two', mode='rw'))
        self.assertEqual(['rw', 'rw'], [self.mode(one) for one in made])

    def test_read_only_volume_is_attached_with_mode_ro(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-update_readonly_flag', {'readonly': True})
        self.assertEqual('ro', self.mode(self.updated(volume, mode='rw')))

    def test_connection_info_of_a_read_only_volume_has_access_mode_ro(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-update_readonly_flag', {'readonly': True})
        self.assertEqual('ro', self.access(self.updated(volume)))

    def test_volume_with_a_cleared_read_only_flag_is_attached_with_mode_rw(self) -> None:
        volume = self.volume()
        for readonly in (True, False):
            self.act(volume, 'os-update_readonly_flag', {'readonly': readonly})
        # Cinder stores the flag as a text, and takes the text False for true.
        self.assertEqual('rw', self.mode(self.updated(volume, mode='rw')))

    def test_volume_in_use_is_not_set_to_read_only(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.act(volume, 'os-update_readonly_flag', {'readonly': True}), 400)
