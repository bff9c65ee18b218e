"""Test cases of the blockattach extension, for clients that negotiate it."""
from typing import Any

from blockattach_tempest_plugin.cases import base
from blockattach_tempest_plugin.cases import lifecycle

MORE = {'project_id', 'host', 'mountpoint', 'mode', 'connector', 'mode_enforced_by', 'last_error',
        'shared_connections'}


class Extension(base.Cases):
    """Cases with the header ``OpenStack-API-Version: volume ..., blockattach ...``."""

    def setUp(self) -> None:
        super().setUp()
        self.needs_extension()

    def more(self, attachment: str, version: str = '1.0') -> Any:
        return self.shown(attachment, extension=version)

    def test_attachment_shows_extension_keys_when_requested(self) -> None:
        self.assertEqual(lifecycle.DETAIL | MORE, set(self.more(self.reserve(self.volume()))))

    def test_attachment_shows_no_extension_keys_by_default(self) -> None:
        self.assertEqual(lifecycle.DETAIL, set(self.shown(self.reserve(self.volume()))))

    def test_response_header_names_the_extension_version(self) -> None:
        answer = self.api.get('/attachments', extension='1.0')
        self.assertIn('blockattach 1.0', answer.headers['OpenStack-API-Version'])

    def test_extension_version_above_the_maximum_is_not_acceptable(self) -> None:
        self.refused(self.api.get('/attachments', extension='1.9999'), 406)

    def test_attachment_shows_its_host_and_mountpoint(self) -> None:
        attachment = self.reserve(self.volume(), connector=base.connector(mountpoint='/dev/vdb'))
        shown = self.more(attachment)
        self.assertEqual((base.connector()['host'], '/dev/vdb'),
                         (shown['host'], shown['mountpoint']))

    def test_mode_ro_is_enforced_by_the_target(self) -> None:
        shown = self.more(self.connect(self.volume(), mode='ro'))
        self.assertEqual(('ro', 'target'), (shown['mode'], shown['mode_enforced_by']))

    def test_attachments_of_one_host_share_a_connection(self) -> None:
        volume = self.shared_volume()
        first, second = self.attach(volume, 'one'), self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.assertEqual([second], self.more(first)['shared_connections'])

    def test_attachments_are_filtered_by_host(self) -> None:
        volume = self.shared_volume()
        wanted = self.attach(volume, 'one')
        self.attach(volume, 'two')
        found = self.answered(self.api.get(
            f'/attachments?volume_id={volume}&host={base.connector()["host"]}',
            extension='1.0'))['attachments']
        self.assertEqual([wanted], [one['id'] for one in found])

    def test_volume_shows_the_attachment_count(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.reserve(volume)
        shown = self.answered(self.api.get(f'/volumes/{volume}', extension='1.0'))['volume']
        self.assertEqual(2, shown['attachment_count'])

    def test_administrator_can_force_delete_an_attachment(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        attachment = self.attach(volume)
        self.answered(admin.send('DELETE', f'/attachments/{attachment}?force=true',
                                 extension='1.0'))
        self.has_status(volume, 'available')

    def test_attachment_shows_its_scsi_reservation_from_extension_version_1_1(self) -> None:
        self.needs_extension('1.1')
        self.assertIn('reservation', self.more(self.connect(self.volume()), '1.1'))

    def test_limits_show_max_total_attachments_from_extension_version_1_3(self) -> None:
        self.needs_extension('1.3')
        limits = self.answered(self.api.get('/limits', extension='1.3'))['limits']['absolute']
        self.assertIn('maxTotalAttachments', limits)
