"""Test cases of attachment lists: filters, pages, order and visibility."""
from typing import Any

from blockattach_tempest_plugin.cases import base
from blockattach_tempest_plugin.cases import lifecycle
from blockattach_tempest_plugin.cases import refusals

BAD_QUERIES = (
    ('a_negative_limit_is_refused', 'limit=-1'),
    ('a_limit_of_text_is_refused', 'limit=many'),
    ('a_negative_offset_is_refused', 'offset=-1'),
    ('an_unknown_key_to_sort_by_is_refused', 'sort=colour:asc'),
    ('an_unknown_direction_to_sort_in_is_refused', 'sort=created_at:sideways'),
    ('two_ways_to_say_the_order_are_refused', 'sort=created_at&sort_key=id'),
)
"""Sentence and query of requests that return 400."""


@base.cases('refuses', BAD_QUERIES)
class Lists(base.Cases):
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

    def test_a_list_has_the_keys_of_a_summary(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.assertEqual(lifecycle.SUMMARY, set(self.attachments_of(volume)[0]))

    def test_a_list_in_detail_has_all_keys(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.assertEqual(lifecycle.DETAIL, set(self.attachments_of(volume, detail=True)[0]))

    def test_a_list_in_detail_is_what_is_shown(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.assertEqual([self.shown(attachment)], self.attachments_of(volume, detail=True))

    def test_a_list_has_no_links(self) -> None:
        self.several()
        body = self.answered(self.api.get('/attachments?limit=1'))
        self.assertEqual({'attachments'}, set(body))

    def test_attachments_are_found_by_volume(self) -> None:
        volume, made = self.several()
        self.reserve(self.volume())
        self.assertEqual(sorted(made), sorted(self.listed(f'volume_id={volume}')))

    def test_attachments_are_found_by_server(self) -> None:
        server = base.server()
        made = self.reserve(self.volume(), instance_uuid=server)
        self.reserve(self.volume(), instance_uuid=base.server())
        self.assertEqual([made], self.listed(f'instance_id={server}'))

    def test_attachments_are_found_by_server_and_volume(self) -> None:
        server, volume = base.server(), self.volume()
        made = self.reserve(volume, instance_uuid=server)
        self.reserve(self.volume(), instance_uuid=server)
        self.assertEqual([made], self.listed(f'instance_id={server}&volume_id={volume}'))

    def test_attachments_are_found_by_attach_status(self) -> None:
        volume, made = self.several()
        reserved = self.reserve(volume)
        self.assertEqual([reserved], self.listed(f'volume_id={volume}&attach_status=reserved'))
        self.assertEqual(sorted(made), sorted(
            self.listed(f'volume_id={volume}&attach_status=attached')))

    def test_attachments_are_found_by_status(self) -> None:
        volume = self.volume()
        made = self.reserve(volume)
        # Cinder permits this filter, but has no such column, and returns an empty list.
        self.assertEqual([made], self.listed(f'volume_id={volume}&status=reserved'))

    def test_a_volume_that_does_not_exist_has_no_attachments(self) -> None:
        self.assertEqual([], self.listed(f'volume_id={refusals.NOBODY}'))

    def test_a_deleted_attachment_is_not_listed(self) -> None:
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

    def test_the_newest_comes_first(self) -> None:
        found = self.times()
        self.assertEqual(sorted(found, reverse=True), found)

    def test_the_oldest_comes_first_if_asked(self) -> None:
        found = self.times('&sort=created_at:asc')
        self.assertEqual(sorted(found), found)

    def test_the_old_way_to_say_the_order_is_known(self) -> None:
        found = self.times('&sort_key=created_at&sort_dir=asc')
        self.assertEqual(sorted(found), found)

    def test_attachments_are_sorted_by_id(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made, self.listed(query))

    def test_a_limit_gives_the_first_of_them(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[:1], self.listed(f'{query}&limit=1'))

    def test_a_limit_of_zero_gives_none(self) -> None:
        query, _ = self.by_id()
        self.assertEqual([], self.listed(f'{query}&limit=0'))

    def test_a_marker_gives_what_comes_after_it(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:], self.listed(f'{query}&marker={made[0]}'))

    def test_pages_give_everything_once(self) -> None:
        query, made = self.by_id()
        found: list[str] = []
        while page := self.listed(f'{query}&limit=2'
                                  + (f'&marker={found[-1]}' if found else '')):
            found += page
        self.assertEqual(made, found)

    def test_an_offset_leaves_the_first_of_them_out(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:], self.listed(f'{query}&offset=1'))

    def test_an_unknown_marker_is_not_found(self) -> None:
        self.refused(self.api.get(f'/attachments?marker={refusals.NOBODY}'), 404)

    def test_details_have_pages_too(self) -> None:
        query, made = self.by_id()
        self.assertEqual(made[1:2], self.listed(f'{query}&limit=1&marker={made[0]}',
                                                detail=True))

    def test_an_unknown_filter_of_a_user_is_refused_from_3_31(self) -> None:
        if self.cloud.admin is self.api:
            self.skipTest('the user is an administrator')
        self.refused(self.api.get('/attachments?colour=red', '3.31'), 400)

    def test_an_unknown_filter_of_a_user_is_ignored_before_3_31(self) -> None:
        if self.cloud.admin is self.api:
            self.skipTest('the user is an administrator')
        volume = self.volume()
        made = self.reserve(volume)
        found = self.answered(self.api.get(f'/attachments?volume_id={volume}&colour=red', '3.30'))
        self.assertEqual([made], [one['id'] for one in found['attachments']])

    def test_an_unknown_filter_of_an_administrator_finds_nothing(self) -> None:
        admin = self.needs_admin()
        self.reserve(self.volume())
        self.assertEqual([], self.answered(
            admin.get('/attachments?all_tenants=1&colour=red'))['attachments'])
