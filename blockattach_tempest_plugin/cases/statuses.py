"""Test cases of the volume status, which follows from the attachments."""
from blockattach_tempest_plugin.cases import base


class VolumeStatuses(base.Cases):
    """Cases of the statuses from available to in-use and back."""

    def test_new_volume_is_available(self) -> None:
        self.has_status(self.volume(), 'available')

    def test_volume_with_a_reserved_attachment_is_reserved(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.has_status(volume, 'reserved')

    def test_volume_with_an_attaching_attachment_is_attaching(self) -> None:
        volume = self.volume()
        self.connect(volume)
        self.has_status(volume, 'attaching')

    def test_volume_is_attaching_after_an_attachment_update(self) -> None:
        volume = self.volume()
        self.answered(self.api.update(self.reserve(volume), base.connector()))
        self.has_status(volume, 'attaching')

    def test_volume_with_an_attached_attachment_is_in_use(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.has_status(volume, 'in-use')

    def test_volume_is_in_use_after_completion_without_a_connector(self) -> None:
        volume = self.volume()
        self.answered(self.api.complete(self.reserve(volume)), 204)
        self.has_status(volume, 'in-use')

    def test_volume_is_available_after_deletion_of_a_reserved_attachment(self) -> None:
        volume = self.volume()
        self.end(self.reserve(volume))
        self.has_status(volume, 'available')

    def test_volume_is_available_after_deletion_of_an_attaching_attachment(self) -> None:
        volume = self.volume()
        self.end(self.connect(volume))
        self.has_status(volume, 'available')

    def test_volume_is_available_after_deletion_of_an_attached_attachment(self) -> None:
        volume = self.volume()
        self.end(self.attach(volume))
        self.has_status(volume, 'available')

    def test_volume_is_in_use_after_deletion_of_an_additional_reservation(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.end(self.reserve(volume))
        self.has_status(volume, 'in-use')

    def test_volume_stays_in_use_while_another_attachment_is_reserved(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.reserve(volume)
        self.has_status(volume, 'in-use')

    def test_volume_stays_in_use_while_another_attachment_is_attaching(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.connect(volume, 'two')
        self.has_status(volume, 'in-use')

    def test_volume_is_reserved_when_only_a_reserved_attachment_remains(self) -> None:
        volume = self.shared_volume()
        attached = self.attach(volume)
        self.reserve(volume)
        self.end(attached)
        self.has_status(volume, 'reserved')

    def test_volume_is_attaching_when_only_an_attaching_attachment_remains(self) -> None:
        volume = self.shared_volume()
        attached = self.attach(volume, 'one')
        self.connect(volume, 'two')
        self.end(attached)
        self.has_status(volume, 'attaching')

    def test_volume_with_two_attached_attachments_is_in_use(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.has_status(volume, 'in-use')

    def test_volume_stays_in_use_when_reserved_again_for_the_same_server(self) -> None:
        self.needs_servers()
        volume, server = self.volume(), base.server()
        self.attach(volume, 'one', instance_uuid=server)
        self.reserve(volume, instance_uuid=server)
        self.has_status(volume, 'in-use')

    def test_rejected_update_leaves_the_volume_reserved(self) -> None:
        volume = self.volume()
        self.refused(self.api.update(self.reserve(volume), {}), 400)
        self.has_status(volume, 'reserved')

    def test_multiattach_volume_is_detaching_after_begin_detaching_action(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_detaching_volume_is_in_use_after_one_of_two_attachments_is_deleted(self) -> None:
        volume = self.shared_volume()
        first = self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.act(volume, 'os-begin_detaching')
        self.end(first)
        self.has_status(volume, 'in-use')

    def test_status_of_an_attached_volume_is_not_reset_to_available(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        self.attach(volume)
        self.refused(admin.act(volume, 'os-reset_status', {'status': 'available'}), 400)
        self.has_status(volume, 'in-use')
