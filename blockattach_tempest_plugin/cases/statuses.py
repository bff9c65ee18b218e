"""Test cases of the volume status, which follows from the attachments."""
from blockattach_tempest_plugin.cases import base


class Statuses(base.Cases):
    """Cases of the statuses from available to in-use and back."""

    def test_a_new_volume_is_available(self) -> None:
        self.has_status(self.volume(), 'available')

    def test_a_volume_with_a_reservation_is_reserved(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.has_status(volume, 'reserved')

    def test_a_volume_that_is_connected_is_attaching(self) -> None:
        volume = self.volume()
        self.connect(volume)
        self.has_status(volume, 'attaching')

    def test_a_volume_that_is_updated_is_attaching(self) -> None:
        volume = self.volume()
        self.answered(self.api.update(self.reserve(volume), base.connector()))
        self.has_status(volume, 'attaching')

    def test_a_volume_with_a_complete_attachment_is_in_use(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.has_status(volume, 'in-use')

    def test_a_volume_completed_without_a_connector_is_in_use(self) -> None:
        volume = self.volume()
        self.answered(self.api.complete(self.reserve(volume)), 204)
        self.has_status(volume, 'in-use')

    def test_a_volume_is_available_after_a_reservation(self) -> None:
        volume = self.volume()
        self.end(self.reserve(volume))
        self.has_status(volume, 'available')

    def test_a_volume_is_available_after_it_was_attaching(self) -> None:
        volume = self.volume()
        self.end(self.connect(volume))
        self.has_status(volume, 'available')

    def test_a_volume_is_available_after_it_was_in_use(self) -> None:
        volume = self.volume()
        self.end(self.attach(volume))
        self.has_status(volume, 'available')

    def test_a_volume_in_use_that_is_reserved_once_more_is_in_use_again(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.end(self.reserve(volume))
        self.has_status(volume, 'in-use')

    def test_a_volume_stays_in_use_while_it_is_reserved_once_more(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.reserve(volume)
        self.has_status(volume, 'in-use')

    def test_a_volume_stays_in_use_while_another_host_is_attaching(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.connect(volume, 'two')
        self.has_status(volume, 'in-use')

    def test_a_volume_is_reserved_when_only_a_reservation_is_left(self) -> None:
        volume = self.shared_volume()
        attached = self.attach(volume)
        self.reserve(volume)
        self.end(attached)
        self.has_status(volume, 'reserved')

    def test_a_volume_is_attaching_when_only_a_connection_is_left(self) -> None:
        volume = self.shared_volume()
        attached = self.attach(volume, 'one')
        self.connect(volume, 'two')
        self.end(attached)
        self.has_status(volume, 'attaching')

    def test_a_volume_is_in_use_when_all_that_join_are_complete(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.has_status(volume, 'in-use')

    def test_a_server_that_moves_keeps_its_volume_in_use(self) -> None:
        self.needs_servers()
        volume, server = self.volume(), base.server()
        self.attach(volume, 'one', instance_uuid=server)
        self.reserve(volume, instance_uuid=server)
        self.has_status(volume, 'in-use')

    def test_a_refused_update_leaves_the_volume_reserved(self) -> None:
        volume = self.volume()
        self.refused(self.api.update(self.reserve(volume), {}), 400)
        self.has_status(volume, 'reserved')

    def test_a_volume_of_many_hosts_is_detaching_while_one_leaves(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_a_volume_of_many_hosts_is_in_use_again_when_one_has_left(self) -> None:
        volume = self.shared_volume()
        first = self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.act(volume, 'os-begin_detaching')
        self.end(first)
        self.has_status(volume, 'in-use')

    def test_a_status_with_attachments_is_not_set_to_available(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        self.attach(volume)
        self.refused(admin.act(volume, 'os-reset_status', {'status': 'available'}), 400)
        self.has_status(volume, 'in-use')
