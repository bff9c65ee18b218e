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

    def test_an_attachment_shows_more_to_those_that_ask(self) -> None:
        self.assertEqual(lifecycle.DETAIL | MORE, set(self.more(self.reserve(self.volume()))))

    def test_an_attachment_shows_nothing_more_to_others(self) -> None:
        self.assertEqual(lifecycle.DETAIL, set(self.shown(self.reserve(self.volume()))))

    def test_an_answer_says_which_version_was_used(self) -> None:
        answer = self.api.get('/attachments', extension='1.0')
        self.assertIn('blockattach 1.0', answer.headers['OpenStack-API-Version'])

    def test_a_version_of_the_extension_that_is_too_new_is_not_acceptable(self) -> None:
        self.refused(self.api.get('/attachments', extension='1.9999'), 406)

    def test_an_attachment_shows_its_host_and_its_device(self) -> None:
        attachment = self.reserve(self.volume(), connector=base.connector(mountpoint='/dev/vdb'))
        shown = self.more(attachment)
        self.assertEqual((base.connector()['host'], '/dev/vdb'),
                         (shown['host'], shown['mountpoint']))

    def test_a_connection_is_kept_to_its_mode_by_the_target(self) -> None:
        shown = self.more(self.connect(self.volume(), mode='ro'))
        self.assertEqual(('ro', 'target'), (shown['mode'], shown['mode_enforced_by']))

    def test_attachments_of_one_host_share_a_connection(self) -> None:
        volume = self.shared_volume()
        first, second = self.attach(volume, 'one'), self.attach(volume, 'one')
        self.attach(volume, 'two')
        self.assertEqual([second], self.more(first)['shared_connections'])

    def test_attachments_are_found_by_host(self) -> None:
        volume = self.shared_volume()
        wanted = self.attach(volume, 'one')
        self.attach(volume, 'two')
        found = self.answered(self.api.get(
            f'/attachments?volume_id={volume}&host={base.connector()["host"]}',
            extension='1.0'))['attachments']
        self.assertEqual([wanted], [one['id'] for one in found])

    def test_a_volume_counts_its_attachments(self) -> None:
        volume = self.shared_volume()
        self.attach(volume, 'one')
        self.reserve(volume)
        shown = self.answered(self.api.get(f'/volumes/{volume}', extension='1.0'))['volume']
        self.assertEqual(2, shown['attachment_count'])

    def test_an_administrator_deletes_an_attachment_by_force(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        attachment = self.attach(volume)
        self.answered(admin.send('DELETE', f'/attachments/{attachment}?force=true',
                                 extension='1.0'))
        self.has_status(volume, 'available')

    def test_an_attachment_shows_from_1_1_what_its_host_has_reserved(self) -> None:
        self.needs_extension('1.1')
        self.assertIn('reservation', self.more(self.connect(self.volume()), '1.1'))

    def test_limits_show_from_1_3_how_many_attachments_there_may_be(self) -> None:
        self.needs_extension('1.3')
        limits = self.answered(self.api.get('/limits', extension='1.3'))['limits']['absolute']
        self.assertIn('maxTotalAttachments', limits)
