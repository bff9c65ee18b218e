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
    ('attach_action_without_a_mountpoint_is_rejected', 'os-attach', {'host_name': 'host'}),
    ('attach_action_without_a_host_or_server_is_rejected', 'os-attach',
     {'mountpoint': '/dev/vdb'}),
    ('attach_action_with_an_empty_mountpoint_is_rejected', 'os-attach',
     {'host_name': 'host', 'mountpoint': ''}),
    ('attach_action_with_a_mountpoint_of_256_characters_is_rejected', 'os-attach',
     {'host_name': 'host', 'mountpoint': 'x' * 256}),
    ('attach_action_with_an_unknown_mode_is_rejected', 'os-attach', {**HOST, 'mode': 'wo'}),
    ('attach_action_with_an_invalid_instance_uuid_is_rejected', 'os-attach',
     {'instance_uuid': 'none', 'mountpoint': '/dev/vdb'}),
    ('attach_action_of_type_string_is_rejected', 'os-attach', '/dev/vdb'),
    ('initialize_connection_action_without_a_connector_is_rejected', 'os-initialize_connection',
     {}),
    ('initialize_connection_action_with_a_list_as_connector_is_rejected',
     'os-initialize_connection', {'connector': []}),
    ('terminate_connection_action_without_a_connector_is_rejected', 'os-terminate_connection', {}),
    ('detach_action_with_an_invalid_attachment_id_is_rejected', 'os-detach',
     {'attachment_id': 'none'}),
    ('unknown_volume_action_is_rejected', 'os-fly', {}),
)
"""Sentence, action and value of requests that return 400."""
OF_NOTHING: tuple[tuple[str, str, Any], ...] = (
    ('reserve_action_on_an_unknown_volume_is_not_found', 'os-reserve', None),
    ('unreserve_action_on_an_unknown_volume_is_not_found', 'os-unreserve', None),
    ('begin_detaching_action_on_an_unknown_volume_is_not_found', 'os-begin_detaching', None),
    ('roll_detaching_action_on_an_unknown_volume_is_not_found', 'os-roll_detaching', None),
    ('attach_action_on_an_unknown_volume_is_not_found', 'os-attach', HOST),
    ('detach_action_on_an_unknown_volume_is_not_found', 'os-detach', {}),
    ('initialize_connection_action_on_an_unknown_volume_is_not_found', 'os-initialize_connection',
     {'connector': base.connector()}),
    ('terminate_connection_action_on_an_unknown_volume_is_not_found', 'os-terminate_connection',
     {'connector': base.connector()}),
)
"""Sentence, action and value of requests that return 404."""


@base.cases('refuses', BAD)
@base.cases('misses', OF_NOTHING)
class RejectedLegacyActions(base.Cases):
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

    def test_two_actions_in_one_request_are_rejected(self) -> None:
        volume = self.volume()
        self.refused(self.api.send('POST', f'/volumes/{volume}/action',
                                   {'os-reserve': {}, 'os-attach': HOST}), 400)
        self.has_status(volume, 'available')

    def test_repeated_reserve_action_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.act(volume, 'os-reserve'), 400)

    def test_reserve_action_on_a_volume_in_use_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.refused(self.api.act(volume, 'os-reserve'), 400)

    def test_begin_detaching_action_on_an_available_volume_is_rejected(self) -> None:
        self.refused(self.api.act(self.volume(), 'os-begin_detaching'), 400)

    def test_begin_detaching_action_on_an_attaching_volume_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.act(volume, 'os-begin_detaching'), 400)

    def test_begin_detaching_action_on_a_detaching_volume_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.refused(self.api.act(volume, 'os-begin_detaching'), 400)

    def test_attach_action_on_a_volume_in_use_by_another_host_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.refused(self.api.act(volume, 'os-attach', {**HOST, 'host_name': 'another'}), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_attach_action_with_mode_rw_on_a_read_only_volume_is_rejected(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-update_readonly_flag', {'readonly': True})
        self.refused(self.api.act(volume, 'os-attach', {**HOST, 'mode': 'rw'}), 400)

    def test_detach_action_requires_an_id_if_there_are_two_attachments(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.act(volume, 'os-attach', {**HOST, 'host_name': host})
        answer = self.api.act(volume, 'os-detach', {})
        self.assertIn(answer.status, NOT_NAMED, answer.text)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_attachment_of_another_volume_is_not_detached(self) -> None:
        volume, another = self.volume(), self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.reserve(another)
        answer = self.api.act(volume, 'os-detach', {'attachment_id': attachment})
        # The detach rule (CVE-2023-2088) rejects the request of a user with 400.
        self.assertIn(answer.status, (400, OF_A_SERVICE), answer.text)
        self.assertEqual((['attached'], ['reserved']),
                         (self.states(volume), self.states(another)))

    def test_detach_action_with_an_unknown_attachment_id_detaches_nothing(self) -> None:
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

    def test_reserve_action_sets_volume_status_attaching(self) -> None:
        volume = self.volume()
        # The status is not reserved, which only the attachments API uses.
        self.act(volume, 'os-reserve')
        self.has_status(volume, 'attaching')

    def test_reserve_action_creates_no_attachment(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.assertEqual([], self.attachments_of(volume))

    def test_unreserve_action_sets_volume_status_available(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'available')

    def test_unreserve_action_on_an_available_volume_changes_nothing(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'available')

    def test_unreserve_action_on_a_volume_in_use_changes_nothing(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-unreserve')
        self.has_status(volume, 'in-use')

    def test_attach_action_creates_an_attached_attachment(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual(['attached'], self.states(volume))
        self.has_status(volume, 'in-use')

    def test_attach_action_requires_no_reservation(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {'instance_uuid': base.server(), 'mountpoint': '/dev/vdb'})
        self.has_status(volume, 'in-use')

    def test_attach_action_sets_the_device(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual('/dev/vdb', self.shown_volume(volume)['attachments'][0]['device'])

    def test_attach_action_sets_the_server(self) -> None:
        volume, server = self.volume(), base.server()
        self.act(volume, 'os-attach', {'instance_uuid': server, 'mountpoint': '/dev/vdb'})
        self.assertEqual(server, self.shown_volume(volume)['attachments'][0]['server_id'])

    def test_attach_action_without_a_mode_sets_attach_mode_rw(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertEqual('rw', self.attachments_of(volume, detail=True)[0]['attach_mode'])

    def test_attach_action_with_mode_ro_sets_attach_mode_ro(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {**HOST, 'mode': 'ro'})
        self.assertEqual('ro', self.attachments_of(volume, detail=True)[0]['attach_mode'])

    def test_volume_metadata_shows_the_attached_mode(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', {**HOST, 'mode': 'ro'})
        # Cinder shows this key of the administrator metadata to every user of the volume.
        self.assertEqual('ro', self.shown_volume(volume)['metadata'].get('attached_mode'))

    def test_attachment_created_by_action_has_no_connection_info(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.assertIsNone(self.attachments_of(volume, detail=True)[0]['connection_info'])

    def test_initialize_connection_action_returns_connection_info(self) -> None:
        info = self.initialize(self.volume())
        self.assertIn('driver_volume_type', info)
        self.assertIsInstance(info['data'], dict)

    def test_initialize_connection_action_keeps_volume_status_attaching(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.has_status(volume, 'attaching')

    def test_terminate_connection_action_makes_an_attaching_volume_available(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.act(volume, 'os-terminate_connection', {'connector': base.connector()})
        self.has_status(volume, 'available')

    def test_begin_detaching_action_sets_volume_status_detaching(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_roll_detaching_action_sets_volume_status_in_use(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-roll_detaching')
        self.has_status(volume, 'in-use')

    def test_roll_detaching_action_on_an_available_volume_changes_nothing(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-roll_detaching')
        self.has_status(volume, 'available')

    def test_detach_action_makes_the_volume_available(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')
        self.assertEqual([], self.attachments_of(volume))

    def test_detach_action_with_an_attachment_id_deletes_that_attachment(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.act(volume, 'os-attach', {**HOST, 'host_name': host})
        first, second = (one['id'] for one in self.attachments_of(volume))
        self.act(volume, 'os-detach', {'attachment_id': first})
        self.assertEqual([second], [one['id'] for one in self.attachments_of(volume)])
        self.has_status(volume, 'in-use')

    def test_detach_action_makes_a_detaching_volume_available(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')

    def test_detach_action_accepts_null(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-detach', None)
        self.has_status(volume, 'available')

    def test_sequence_of_attach_and_detach_actions_leaves_the_volume_available(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.initialize(volume)
        self.act(volume, 'os-attach', HOST)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-terminate_connection', {'connector': base.connector()})
        self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')

    def test_administrator_can_force_detach_a_volume(self) -> None:
        admin = self.needs_admin()
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.attachments_of(volume)[0]['id']
        self.answered(admin.act(volume, 'os-force_detach', {
            'attachment_id': attachment, 'connector': base.connector()}), 202)
        self.has_status(volume, 'available')


class ActionsAndAttachments(base.Cases):
    """Cases that combine volume actions and the attachments API on one volume."""

    def test_attachment_created_by_action_is_shown(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        attachment = self.attachments_of(volume)[0]['id']
        self.assertEqual(volume, self.shown(attachment)['volume_id'])

    def test_attachment_created_by_action_is_deleted(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', HOST)
        self.end(self.attachments_of(volume)[0]['id'])
        self.has_status(volume, 'available')

    def test_volume_with_an_attachment_begins_detaching_by_action(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.has_status(volume, 'detaching')

    def test_attachment_of_a_detaching_volume_is_deleted(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.assertEqual([], self.end(attachment))
        self.has_status(volume, 'available')

    def test_attachment_stays_attached_after_roll_detaching_action(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.act(volume, 'os-roll_detaching')
        self.assertEqual('attached', self.shown(attachment)['status'])
        self.has_status(volume, 'in-use')

    def test_attachment_is_deleted_by_detach_action(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        self.act(volume, 'os-detach', {'attachment_id': attachment})
        self.refused(self.api.show(attachment), 404)
        self.has_status(volume, 'available')

    def test_attach_action_adds_a_host_to_an_attached_volume(self) -> None:
        volume = self.shared_volume()
        self.attach(volume)
        self.act(volume, 'os-attach', HOST)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_attachment_adds_a_host_to_a_volume_attached_by_action(self) -> None:
        volume = self.shared_volume()
        self.act(volume, 'os-attach', HOST)
        self.attach(volume)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_unreserve_action_keeps_a_reserved_attachment(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        # The action has an effect only in the status attaching, which os-reserve sets.
        self.act(volume, 'os-unreserve')
        self.assertEqual('reserved', self.shown(attachment)['status'])
        self.has_status(volume, 'reserved')

    def test_repeated_begin_detaching_action_on_a_multiattach_volume_is_accepted(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.attach(volume, host)
        # The action names no attachment. Cinder rejects it while another server is detaching.
        for _ in range(2):
            self.act(volume, 'os-begin_detaching')
