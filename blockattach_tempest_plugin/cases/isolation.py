"""Test cases of the isolation of projects, and of read-only users."""
from typing import Any

from blockattach_tempest_plugin.cases import base


class ProjectIsolation(base.Cases):
    """Cases with two projects of one service.

    The responses are 404 instead of 403, so that a caller does not learn which IDs exist in other
    projects.
    """

    def setUp(self) -> None:
        super().setUp()
        self.stranger = self.needs_other()

    def test_attachment_of_another_project_is_not_shown(self) -> None:
        self.refused(self.stranger.show(self.attach(self.volume())), 404)

    def test_attachment_of_another_project_is_not_listed(self) -> None:
        volume = self.volume()
        self.attach(volume)
        found = self.answered(self.stranger.get(f'/attachments?volume_id={volume}'))
        self.assertEqual([], found['attachments'])

    def test_parameter_all_tenants_of_a_user_is_ignored(self) -> None:
        volume = self.volume()
        self.attach(volume)
        # The service ignores all_tenants of a user who is not an administrator.
        found = self.answered(self.stranger.get(f'/attachments?all_tenants=1&volume_id={volume}'))
        self.assertEqual([], found['attachments'])

    def test_attachment_to_a_volume_of_another_project_is_not_created(self) -> None:
        volume = self.volume()
        self.refused(self.stranger.create(volume), 404)
        self.has_status(volume, 'available')

    def test_attachment_of_another_project_is_not_updated(self) -> None:
        attachment = self.reserve(self.volume())
        self.refused(self.stranger.update(attachment, base.connector('stranger')), 404)
        self.assertEqual('reserved', self.shown(attachment)['status'])

    def test_attachment_of_another_project_is_not_completed(self) -> None:
        attachment = self.connect(self.volume())
        self.refused(self.stranger.complete(attachment), 404)
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_attachment_of_another_project_is_not_deleted(self) -> None:
        attachment = self.attach(self.volume())
        self.refused(self.stranger.delete(attachment), 404)
        self.assertEqual('attached', self.shown(attachment)['status'])

    def test_volume_of_another_project_is_not_reserved_by_action(self) -> None:
        volume = self.volume()
        self.refused(self.stranger.act(volume, 'os-reserve'), 404)
        self.has_status(volume, 'available')

    def test_connection_to_a_volume_of_another_project_is_not_initialized(self) -> None:
        answer = self.stranger.act(self.volume(), 'os-initialize_connection',
                                   {'connector': base.connector('stranger')})
        self.refused(answer, 404)

    def test_volume_of_another_project_is_not_detached_by_action(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.stranger.act(volume, 'os-detach', {}), 404)
        self.has_status(volume, 'in-use')

    def test_volume_of_another_project_does_not_begin_detaching(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.stranger.act(volume, 'os-begin_detaching'), 404)
        self.has_status(volume, 'in-use')

    def test_marker_of_another_project_is_not_found(self) -> None:
        attachment = self.reserve(self.volume())
        self.refused(self.stranger.get(f'/attachments?marker={attachment}'), 404)

    def test_administrator_lists_attachments_of_all_projects(self) -> None:
        admin = self.needs_admin()
        volume = self.volume(self.stranger)
        made = self.answered(self.stranger.create(volume))['attachment']['id']
        found = self.answered(admin.get(f'/attachments?all_tenants=1&volume_id={volume}'))
        self.assertEqual([made], [one['id'] for one in found['attachments']])


class Readers(base.Cases):
    """Cases with a read-only user."""

    def setUp(self) -> None:
        super().setUp()
        self.reader = self.needs(self.cloud.reader, 'read-only user')

    def forbids(self, answer: Any, rule: str) -> None:
        """Assert that a request is forbidden, and that the message names the policy rule."""
        self.refused(answer, 403, rule)

    def test_reader_can_show_an_attachment(self) -> None:
        attachment = self.reserve(self.volume())
        self.answered(self.reader.show(attachment))

    def test_reader_cannot_create_an_attachment(self) -> None:
        self.forbids(self.reader.create(self.volume()), 'volume:attachment_create')

    def test_reader_cannot_update_an_attachment(self) -> None:
        attachment = self.reserve(self.volume())
        self.forbids(self.reader.update(attachment, base.connector()),
                     'volume:attachment_update')

    def test_reader_cannot_complete_an_attachment(self) -> None:
        attachment = self.reserve(self.volume())
        self.forbids(self.reader.complete(attachment), 'volume:attachment_complete')

    def test_reader_cannot_delete_an_attachment(self) -> None:
        attachment = self.reserve(self.volume())
        self.forbids(self.reader.delete(attachment), 'volume:attachment_delete')

    def test_user_cannot_force_detach_a_volume(self) -> None:
        if self.cloud.admin is self.api:
            self.skipTest('the user is an administrator')
        self.refused(self.api.act(self.volume(), 'os-force_detach', {}), 403)
