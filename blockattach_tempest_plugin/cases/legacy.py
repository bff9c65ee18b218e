"""Test cases of the volume actions that are older than the attachments API."""
from typing import Any

from blockattach_tempest_plugin.cases import base

HOST = {'host_name': 'sanity-host', 'mountpoint': '/dev/vdb'}
UNKNOWN = '5f1c9a5e-7a53-4d3f-9f3c-0a4b8a9d6e11'
NOT_NAMED = (400, 409)
"""Status codes if the attachment is ambiguous: 400 for a service, 409 for a user."""
OF_A_SERVICE = 202
"""Status code for a service that names a missing attachment, which counts as detached.

If the deployment does not enforce service tokens, every caller counts as a service.
"""

BAD: tuple[tuple[str, str, Any], ...] = (
    ('attaching_without_a_mountpoint_is_refused', 'os-attach', {'host_name': 'host'}),
    ('attaching_to_nothing_is_refused', 'os-attach', {'mountpoint': '/dev/vdb'}),
    ('attaching_with_an_empty_mountpoint_is_refused', 'os-attach',
     {'host_name': 'host', 'mountpoint': ''}),
    ('attaching_with_a_long_mountpoint_is_refused', 'os-attach',
     {'host_name': 'host', 'mountpoint': 'x' * 256}),
    ('attaching_in_a_mode_that_does_not_exist_is_refused', 'os-attach', {**HOST, 'mode': 'wo'}),
    ('attaching_to_a_server_that_is_no_id_is_refused', 'os-attach',
     {'instance_uuid': 'none', 'mountpoint': '/dev/vdb'}),
    ('attaching_by_a_text_is_refused', 'os-attach', '/dev/vdb'),
    ('initializing_without_a_connector_is_refused', 'os-initialize_connection', {}),
    ('initializing_with_a_list_is_refused', 'os-initialize_connection', {'connector': []}),
    ('terminating_without_a_connector_is_refused', 'os-terminate_connection', {}),
    ('detaching_by_an_id_that_is_none_is_refused', 'os-detach', {'attachment_id': 'none'}),
    ('an_action_that_does_not_exist_is_refused_by_a_volume', 'os-fly', {}),
)
"""Sentence, action and value of requests that return 400."""
OF_NOTHING: tuple[tuple[str, str, Any], ...] = (
    ('an_unknown_volume_is_not_reserved', 'os-reserve', None),
    ('an_unknown_volume_is_not_unreserved', 'os-unreserve', None),
    ('an_unknown_volume_does_not_begin_to_detach', 'os-begin_detaching', None),
    ('an_unknown_volume_does_not_roll_detaching_back', 'os-roll_detaching', None),
    ('an_unknown_volume_is_not_attached', 'os-attach', HOST),
    ('an_unknown_volume_is_not_detached', 'os-detach', {}),
    ('an_unknown_volume_is_not_initialized', 'os-initialize_connection',
     {'connector': base.connector()}),
    ('an_unknown_volume_is_not_terminated', 'os-terminate_connection',
     {'connector': base.connector()}),
)
"""Sentence, action and value of requests that return 404."""


@base.cases('refuses', BAD)
@base.cases('misses', OF_NOTHING)
class LegacyRefusals(base.Cases):
    """Cases of actions that are refused."""

    def refuses(self, action: str, value: Any) -> None:
        """Assert that an action returns 400, and that the volume is unchanged."""
        volume = self.volume()
        self.refused(self.api.act(volume, action, value), 400)
        self.has_status(volume, 'available')
        self.assertEqual([], self.attachments_of(volume))

    def misses(self, action: str, value: Any) -> None:
        """Assert that an action on an unknown volume returns 404."""
        self.refused(self.api.act(UNKNOWN, action, value), 404)

    def test_two_actions_at_once_are_refused(self) -> None:
        volume = self.volume()
        self.refused(self.api.send('POST', f'/volumes/{volume}/action',
                                   {'os-reserve': {}, 'os-attach': HOST}), 400)
        self.has_status(volume, 'available')

    def test_a_volume_that_is_reserved_is_not_reserved_again(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.act(volume, 'os-reserve'), 400)

    def test_a_volume_in_use_is_not_reserved_by_action(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.refused(self.api.act(volume, 'os-reserve'), 400)

    def test_a_free_volume_does_not_begin_to_detach(self) -> None:
        self.refused(self.api.act(self.volume(), 'os-begin_detaching'), 400)

    def test_a_reserved_volume_does_not_begin_to_detach(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.act(volume, 'os-begin_detaching'), 400)

    def test_a_detaching_volume_does_not_begin_to_detach(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.refused(self.api.act(volume, 'os-begin_detaching'), 400)

    def test_a_volume_in_use_is_not_attached_to_another_host(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.refused(self.api.act(volume, 'os-attach', {**HOST, 'host_name': 'another'}), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_a_read_only_volume_is_not_attached_to_write(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-update_readonly_flag', {'readonly': True})
        self.refused(self.api.act(volume, 'os-attach', {**HOST, 'mode': 'rw'}), 400)

    def test_a_volume_of_many_hosts_is_not_detached_without_saying_which(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.act(volume, 'os-attach', {**HOST, 'host_name': host})
        answer = self.api.act(volume, 'os-detach', {})
        self.assertIn(answer.status, NOT_NAMED, answer.text)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_an_attachment_of_another_volume_is_not_detached(self) -> None:
        volume, another = self.volume(), self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.reserve(another)
        answer = self.api.act(volume, 'os-detach', {'attachment_id': attachment})
        # The detach rule (CVE-2023-2088) rejects the request of a user with 400.
        self.assertIn(answer.status, (400, OF_A_SERVICE), answer.text)
        self.assertEqual((['attached'], ['reserved']),
                         (self.states(volume), self.states(another)))

    def test_an_unknown_attachment_is_not_detached(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        answer = self.api.act(volume, 'os-detach', {'attachment_id': UNKNOWN})
        # The detach rule (CVE-2023-2088) rejects the request of a user with 409.
        self.assertIn(answer.status, (409, OF_A_SERVICE), answer.text)
        self.assertEqual(['attached'], self.states(volume))


class LegacyActions(base.Cases):
    """Cases of the actions from os-reserve to os-detach."""

    def initialize(self, volume: str, host: str = 'one') -> Any:
        """Initialize the connection of a host, and return the connection information."""
        return self.act(volume, 'os-initialize_connection',
                        {'connector': base.connector(host)}, 200)['connection_info']

    def test_reserving_makes_a_volume_attaching(self) -> None:
        volume = self.volume()
        # The status is not reserved, which only the attachments API uses.
        self.act(volume, 'os-reserve')
        self.has_status(volume, 'attaching')

    def test_reserving_makes_no_attachment(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.assertEqual([], self.attachments_of(volume))

    def test_unreserving_frees_a_volume(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'available')

    def test_unreserving_a_free_volume_changes_nothing(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'available')

    def test_unreserving_a_volume_in_use_changes_nothing(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'in-use')

    def test_attaching_makes_an_attachment_that_is_attached(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual(['attached'], self.states(volume))
        self.has_status(volume, 'in-use')

    def test_attaching_by_action_needs_no_reservation(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {'instance_uuid': base.server(), 'mountpoint': '/dev/vdb'})
        self.has_status(volume, 'in-use')

    def test_attaching_by_action_shows_the_device(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual('/dev/vdb', self.shown_volume(volume)['attachments'][0]['device'])

    def test_attaching_by_action_shows_the_server(self) -> None:
        volume, server = self.volume(), base.server()
        self.act(volume, 'os-attach', {'instance_uuid': server, 'mountpoint': '/dev/vdb'})
        self.assertEqual(server, self.shown_volume(volume)['attachments'][0]['server_id'])

    def test_attaching_by_action_makes_it_rw(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual('rw', self.attachments_of(volume, detail=True)[0]['attach_mode'])

    def test_attaching_by_action_takes_the_mode_ro(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {**HOST, 'mode': 'ro'})
        self.assertEqual('ro', self.attachments_of(volume, detail=True)[0]['attach_mode'])

    def test_a_volume_shows_in_which_mode_it_is_attached(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {**HOST, 'mode': 'ro'})
        # Cinder shows this key of the administrator metadata to every user of the volume.
        self.assertEqual('ro', self.shown_volume(volume)['metadata'].get('attached_mode'))

    def test_an_attachment_made_by_action_has_no_connection(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertIsNone(self.attachments_of(volume, detail=True)[0]['connection_info'])

    def test_initializing_answers_a_connection(self) -> None:
        info = self.initialize(self.volume())
        self.assertIn('driver_volume_type', info)
        self.assertIsInstance(info['data'], dict)

    def test_initializing_a_reserved_volume_leaves_it_attaching(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.has_status(volume, 'attaching')

    def test_terminating_frees_a_reserved_volume(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.act(volume, 'os-terminate_connection', {'connector': base.connector()})
        self.has_status(volume, 'available')

    def test_beginning_to_detach_makes_a_volume_detaching(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_rolling_detaching_back_makes_a_volume_in_use(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-roll_detaching')
        self.has_status(volume, 'in-use')

    def test_rolling_detaching_back_changes_no_other_volume(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-roll_detaching')
        self.has_status(volume, 'available')

    def test_detaching_frees_a_volume(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')
        self.assertEqual([], self.attachments_of(volume))

    def test_detaching_takes_the_id_of_the_attachment(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.act(volume, 'os-attach', {**HOST, 'host_name': host})
        first, second = (one['id'] for one in self.attachments_of(volume))
        self.act(volume, 'os-detach', {'attachment_id': first})
        self.assertEqual([second], [one['id'] for one in self.attachments_of(volume)])
        self.has_status(volume, 'in-use')

    def test_detaching_ends_what_began_to_detach(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')

    def test_detaching_takes_null(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-detach', None)
        self.has_status(volume, 'available')

    def test_the_whole_way_by_actions_leads_back(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-terminate_connection', {'connector': base.connector()})
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')

    def test_an_administrator_detaches_by_force(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.attachments_of(volume)[0]['id']
        self.answered(admin.act(volume, 'os-force_detach', {
            'attachment_id': attachment, 'connector': base.connector()}), 202)
        self.has_status(volume, 'available')


class OldAndNew(base.Cases):
    """Cases that combine volume actions and the attachments API on one volume."""

    def test_an_attachment_made_by_action_is_shown(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.attachments_of(volume)[0]['id']
        self.assertEqual(volume, self.shown(attachment)['volume_id'])

    def test_an_attachment_made_by_action_is_deleted(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.end(self.attachments_of(volume)[0]['id'])
        self.has_status(volume, 'available')

    def test_a_new_attachment_begins_to_detach(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_a_new_attachment_that_began_to_detach_is_deleted(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.assertEqual([], self.end(attachment))
        self.has_status(volume, 'available')

    def test_a_new_attachment_is_rolled_back(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-roll_detaching')
        self.assertEqual('attached', self.shown(attachment)['status'])
        self.has_status(volume, 'in-use')

    def test_a_new_attachment_is_detached_by_action(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-detach', {'attachment_id': attachment})
        self.refused(self.api.show(attachment), 404)
        self.has_status(volume, 'available')

    def test_an_old_host_joins_a_new_one(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.act(volume, 'os-attach', HOST)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_a_new_host_joins_an_old_one(self) -> None:
        volume = self.shared_volume()
        self.act(volume, 'os-attach', HOST)
        self.attach(volume)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_a_reserved_volume_keeps_its_attachment_when_unreserved(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        # The action has an effect only in the status attaching, which os-reserve sets.
        self.act(volume, 'os-unreserve')
        self.assertEqual('reserved', self.shown(attachment)['status'])
        self.has_status(volume, 'reserved')

    def test_servers_of_one_volume_begin_to_detach_one_after_the_other(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.attach(volume, host)
        # The action names no attachment. Cinder rejects it while another server is detaching.
        for _ in range(2):
            self.act(volume, 'os-begin_detaching')
