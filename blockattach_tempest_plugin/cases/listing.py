"""Test cases of attachment lists: filters, pages, order and visibility."""
from typing import Any

from blockattach_tempest_plugin.cases import base
from blockattach_tempest_plugin.cases import lifecycle
from blockattach_tempest_plugin.cases import refusals

BAD_QUERIES = (
    ('negative_limit_is_rejected', 'limit=-1'),
    ('non_numeric_limit_is_rejected', 'limit=many'),
    ('negative_offset_is_rejected', 'offset=-1'),
    ('unknown_sort_key_is_rejected', 'sort=colour:asc'),
    ('unknown_sort_direction_is_rejected', 'sort=created_at:sideways'),
    ('sort_combined_with_sort_key_is_rejected', 'sort=created_at&sort_key=id'),
)
"""Sentence and query of requests that return 400."""


@base.cases('refuses', BAD_QUERIES)
class AttachmentLists(base.Cases):
    """Cases of ``GET /attachments``."""

    def listed(self, query: str, detail: bool = False) -> Any:
        path = '/attachments/detail' if detail else '/attachments'
        found = self.answered(self.api.get(f'{path}?{query}'))['attachments']
        return [one['id'] for one in found]

    def refuses(self, query: str) -> None:
        self.refused(self.api.get(f'/attachments?{query}'), 400)

    def several(self) -> tuple[str, list[str]]:
        """Create a volume with three attachments.

        :returns: ID of the volume, and IDs of the attachments, the oldest first
        """
        volume = self.shared_volume()
        return volume, [self.attach(volume, host) for host in ('one', 'two', 'three')]

    def by_id(self) -> tuple[str, list[str]]:
        """Create a volume with attachments.

        :returns: query that lists the attachments by ID, and their sorted IDs
        """
        volume, made = self.several()
        # By ID, because attachments of the same second have no order by time (see `times`).
        return f'volume_id={volume}&sort=id:asc', sorted(made)

    def test_list_shows_the_summary_keys(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.assertEqual(lifecycle.SUMMARY, set(self.attachments_of(volume)[0]))

    def test_detailed_list_shows_all_keys(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.assertEqual(lifecycle.DETAIL, set(self.attachments_of(volume, detail=True)[0]))

    def test_detailed_list_matches_the_show_response(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.assertEqual([self.shown(attachment)], self.attachments_of(volume, detail=True))

    def test_list_with_a_limit_has_no_links(self) -> None:
        self.several()
        body = self.answered(self.api.get('/attachments?limit=1'))
        self.assertEqual({'attachments'}, set(body))

    def test_attachments_are_filtered_by_volume_id(self) -> None:
        volume, made = self.several()
        self.reserve(self.volume())
        self.assertEqual(sorted(made), sorted(self.listed(f'volume_id={volume}')))

    def test_attachments_are_filtered_by_instance_id(self) -> None:
        server = base.server()
        made = self.reserve(self.volume(), instance_uuid=server)
        self.reserve(self.volume(), instance_uuid=base.server())
        self.assertEqual([made], self.listed(f'instance_id={server}'))

    def test_attachments_are_filtered_by_instance_id_and_volume_id(self) -> None:
        server, volume = base.server(), self.volume()
        made = self.reserve(volume, instance_uuid=server)
        self.reserve(self.volume(), instance_uuid=server)
        self.assertEqual([made], self.listed(f'instance_id={server}&volume_id={volume}'))

    def test_attachments_are_filtered_by_attach_status(self) -> None:
        volume, made = self.several()
        reserved = self.reserve(volume)
        self.assertEqual([reserved], self.listed(f'volume_id={volume}&attach_status=reserved'))
        self.assertEqual(sorted(made), sorted(
            self.listed(f'volume_id={volume}&attach_status=attached')))

    def test_attachments_are_filtered_by_status(self) -> None:
        volume = self.volume()
        made = self.reserve(volume)
        # Cinder permits this filter, but has no such column, and returns an empty list.
        self.assertEqual([made], self.listed(f'volume_id={volume}&status=reserved'))

    def test_filter_with_an_unknown_volume_id_returns_an_empty_list(self) -> None:
        self.assertEqual([], self.listed(f'volume_id={refusals.NOBODY}'))

    def test_deleted_attachment_is_not_listed(self) -> None:
        volume = self.volume()
        self.end(self.attach(volume))
        self.assertEqual([], self.listed(f'volume_id={volume}'))

    def times(self, query: str = '') -> list[str]:
        """Return the connection times of a new volume's attachments, in the order of the list.

        The times are compared instead of the IDs, because some services store whole seconds.
        Attachments of the same second may be listed in any order.
        """
        volume, _ = self.several()
        return [one['attached_at'] for one in self.attachments_of(volume, query, detail=True)]

    def test_default_order_is_newest_first(self) -> None:
        found = self.times()
        self.assertEqual(sorted(found, reverse=True), found)

    def test_ascending_sort_by_creation_time_lists_the_oldest_first(self) -> None:
        found = self.times('&sort=created_at:asc')
        self.assertEqual(sorted(found), found)

    def test_sort_key_and_sort_dir_set_the_order(self) -> None:
        found = self.times('&sort_key=created_at&sort_dir=asc')
        self.assertEqual(sorted(found), found)

    def test_attachments_are_sorted_by_id(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made, self.listed(query))

    def test_limit_of_one_returns_the_first_attachment(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[:1], self.listed(f'{query}&limit=1'))

    def test_limit_of_zero_returns_an_empty_list(self) -> None:
        query, _ = self.by_id()
        self.assertEqual([], self.listed(f'{query}&limit=0'))

    def test_marker_returns_the_attachments_after_the_marker(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:], self.listed(f'{query}&marker={made[0]}'))

    def test_pages_contain_each_attachment_once(self) -> None:
        query, made = self.by_id()
        found: list[str] = []
        while page := self.listed(f'{query}&limit=2'
                                  + (f'&marker={found[-1]}' if found else '')):
            found += page
        self.assertEqual(made, found)

    def test_offset_skips_the_first_attachment(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:], self.listed(f'{query}&offset=1'))

    def test_unknown_marker_is_not_found(self) -> None:
        self.refused(self.api.get(f'/attachments?marker={refusals.NOBODY}'), 404)

    def test_detailed_list_supports_limit_and_marker(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:2], self.listed(f'{query}&limit=1&marker={made[0]}',
                                                detail=True))

    def test_unknown_filter_of_a_user_is_rejected_from_microversion_3_31(self) -> None:
        if self.cloud.admin is self.api:
            self.skipTest('the user is an administrator')
        self.refused(self.api.get('/attachments?colour=red', '3.31'), 400)

    def test_unknown_filter_of_a_user_is_ignored_before_microversion_3_31(self) -> None:
        if self.cloud.admin is self.api:
            self.skipTest('the user is an administrator')
        volume = self.volume()
        made = self.reserve(volume)
        found = self.answered(self.api.get(f'/attachments?volume_id={volume}&colour=red', '3.30'))
        self.assertEqual([made], [one['id'] for one in found['attachments']])

    def test_unknown_filter_of_an_administrator_returns_an_empty_list(self) -> None:
        admin = self.needs_admin()
        self.reserve(self.volume())
        self.assertEqual([], self.answered(
            admin.get('/attachments?all_tenants=1&colour=red'))['attachments'])
