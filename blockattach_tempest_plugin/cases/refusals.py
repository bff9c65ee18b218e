"""Test cases of invalid requests: the code and the form of the response, and no side effects."""
from collections.abc import Callable
from typing import Any

from blockattach_tempest_plugin.cases import base

NOBODY = '5f1c9a5e-7a53-4d3f-9f3c-0a4b8a9d6e11'
"""ID that no resource has."""

Body = Callable[[str], Any]
CREATES: tuple[tuple[str, int, Body], ...] = (
    ('missing_volume_uuid_is_rejected', 400, lambda volume: {'attachment': {}}),
    ('invalid_volume_uuid_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': 'none'}}),
    ('unknown_volume_uuid_is_not_found', 404,
     lambda volume: {'attachment': {'volume_uuid': NOBODY}}),
    ('null_instance_uuid_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'instance_uuid': None}}),
    ('invalid_instance_uuid_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'instance_uuid': 'none'}}),
    ('connector_of_type_string_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'connector': 'host'}}),
    ('connector_of_type_list_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'connector': []}}),
    ('unknown_attachment_key_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'colour': 'red'}}),
    ('unknown_key_beside_the_attachment_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume}, 'colour': 'red'}),
    ('unknown_mode_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'mode': 'wo'}}),
    ('null_mode_is_rejected', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'mode': None}}),
    ('body_without_the_key_attachment_is_rejected', 400,
     lambda volume: {'volume': {'volume_uuid': volume}}),
    ('body_of_type_list_is_rejected', 400, lambda volume: [volume]),
    ('body_with_invalid_json_is_rejected', 400, lambda volume: b'{"attachment": '),
    ('missing_body_is_rejected', 400, lambda volume: None),
)
"""Sentence, status code and body of requests to create an attachment."""
UPDATES: tuple[tuple[str, Any], ...] = (
    ('update_without_a_connector_is_rejected', {'attachment': {}}),
    ('update_with_an_empty_connector_is_rejected', {'attachment': {'connector': {}}}),
    ('update_with_a_null_connector_is_rejected', {'attachment': {'connector': None}}),
    ('update_with_a_connector_of_type_string_is_rejected', {'attachment': {'connector': 'host'}}),
    ('update_with_a_mode_is_rejected',
     {'attachment': {'connector': base.connector(), 'mode': 'ro'}}),
    ('update_without_the_key_attachment_is_rejected', {'volume': {'connector': base.connector()}}),
    ('update_with_invalid_json_is_rejected', b'{'),
    ('update_with_a_connector_without_an_initiator_is_rejected',
     {'attachment': {'connector': {'host': 'one', 'ip': '192.0.2.1'}}}),
    ('update_with_a_connector_without_a_host_is_rejected',
     {'attachment': {'connector': {'initiator': 'iqn.2026-01.org.example:one'}}}),
)
"""Sentence and body of updates that return 400."""
TOO_EARLY: tuple[tuple[str, str, str, str], ...] = (
    ('attachments_are_not_listed_before_microversion_3_27', '3.26', 'GET', '/attachments'),
    ('attachments_are_not_listed_in_detail_before_microversion_3_27',
     '3.26', 'GET', '/attachments/detail'),
    ('attachment_is_not_shown_before_microversion_3_27', '3.26', 'GET', '/attachments/{id}'),
    ('attachment_is_not_created_before_microversion_3_27', '3.26', 'POST', '/attachments'),
    ('attachment_is_not_updated_before_microversion_3_27', '3.26', 'PUT', '/attachments/{id}'),
    ('attachment_is_not_deleted_before_microversion_3_27', '3.26', 'DELETE', '/attachments/{id}'),
    ('attachment_is_not_completed_before_microversion_3_44',
     '3.43', 'POST', '/attachments/{id}/action'),
)
"""Sentence, version, method and path of requests that a later microversion added."""
BODIES = {'POST': {'attachment': {'volume_uuid': NOBODY}}, '{id}/action': {'os-complete': {}},
          'PUT': {'attachment': {'connector': base.connector()}}}


@base.cases('refuses', CREATES)
class RejectedCreations(base.Cases):
    """Cases of invalid requests to create an attachment."""

    def refuses(self, status: int, body: Body) -> None:
        """Assert that a request returns this code, and that the volume is unchanged."""
        volume = self.volume()
        self.refused(self.api.send('POST', '/attachments', body(volume)), status)
        self.has_status(volume, 'available')
        self.assertEqual([], self.attachments_of(volume))

    def test_mode_is_rejected_before_microversion_3_54(self) -> None:
        volume = self.volume()
        self.refused(self.api.create(volume, version='3.53', mode='ro'), 400)
        self.has_status(volume, 'available')

    def test_body_with_an_xml_content_type_is_rejected(self) -> None:
        self.refused(self.api.send('POST', '/attachments', b'<attachment/>',
                                   Content_Type='application/xml'), 415)

    def test_connector_without_an_initiator_is_rejected(self) -> None:
        volume = self.volume()
        self.refused(self.api.create(volume, connector={'host': 'one'}), 400)

    def test_rejected_connector_leaves_no_attachment(self) -> None:
        volume = self.volume()
        refused = self.api.create(volume, connector={'host': 'one'})
        # Cinder returns 500 and keeps the reserved attachment, whose ID the caller does not learn.
        self.assertIn(refused.status, (400, 500))
        self.assertEqual([], self.attachments_of(volume))
        self.has_status(volume, 'available')

    def test_microversion_above_the_maximum_is_not_acceptable(self) -> None:
        self.refused(self.api.get('/attachments', '3.9999'), 406)

    def test_invalid_microversion_is_rejected(self) -> None:
        self.refused(self.api.get('/attachments', 'three'), 400)


@base.cases('refuses', UPDATES)
class RejectedUpdates(base.Cases):
    """Cases of invalid requests to update, complete, show and delete attachments."""

    def refuses(self, body: Any) -> None:
        """Assert that an update returns 400, and that the attachment is unchanged."""
        volume = self.volume()
        attachment = self.reserve(volume)
        self.refused(self.api.send('PUT', f'/attachments/{attachment}', body), 400)
        self.assertEqual('reserved', self.shown(attachment)['status'])
        self.has_status(volume, 'reserved')

    def test_unknown_attachment_is_not_updated(self) -> None:
        self.refused(self.api.update(NOBODY, base.connector()), 404)

    def test_unknown_attachment_is_not_completed(self) -> None:
        self.refused(self.api.complete(NOBODY), 404)

    def test_unknown_attachment_is_not_shown(self) -> None:
        self.refused(self.api.show(NOBODY), 404)

    def test_unknown_attachment_is_not_deleted(self) -> None:
        self.refused(self.api.delete(NOBODY), 404)

    def test_invalid_attachment_id_is_not_found(self) -> None:
        self.refused(self.api.show('summary'), 404)

    def test_unknown_attachment_action_is_rejected(self) -> None:
        attachment = self.connect(self.volume())
        answer = self.api.send('POST', f'/attachments/{attachment}/action', {'os-fly': {}})
        self.refused(answer, 400)

    def test_deleted_attachment_is_not_updated(self) -> None:
        attachment = self.reserve(self.volume())
        self.end(attachment)
        self.refused(self.api.update(attachment, base.connector()), 404)

    def test_deleted_attachment_is_not_completed(self) -> None:
        attachment = self.reserve(self.volume())
        self.end(attachment)
        self.refused(self.api.complete(attachment), 404)


@base.cases('misses', TOO_EARLY)
class RejectedMicroversions(base.Cases):
    """Cases of requests at a microversion that does not support them."""

    def misses(self, version: str, method: str, path: str) -> None:
        """Assert that a request returns 404 for an existing attachment."""
        attachment = self.connect(self.volume())
        body = BODIES.get('{id}/action' if path.endswith('action') else method)
        # Cinder has no such method at the earlier version, and returns 404 instead of 406.
        self.refused(self.api.send(method, path.replace('{id}', attachment), body, version), 404)
        self.assertEqual('attaching', self.shown(attachment)['status'])


class RejectedVolumeStatuses(base.Cases):
    """Cases of requests that the status of the volume does not allow."""

    def reset(self, volume: str, status: str) -> None:
        """Reset the status of a volume as an administrator.

        The status is reset to available after the test, so that the volume can be deleted.
        """
        admin = self.needs_admin()
        self.answered(admin.act(volume, 'os-reset_status', {'status': status}), 202)
        self.addCleanup(admin.act, volume, 'os-reset_status', {'status': 'available'})

    def test_reserved_volume_is_not_reserved_for_another_server(self) -> None:
        volume = self.volume()
        self.reserve(volume, instance_uuid=base.server())
        self.refused(self.api.create(volume, instance_uuid=base.server()), 400)
        self.assertEqual(['reserved'], self.states(volume))

    def test_attaching_volume_is_not_reserved(self) -> None:
        volume = self.volume()
        self.connect(volume)
        self.refused(self.api.create(volume), 400)
        self.assertEqual(['attaching'], self.states(volume))

    def test_volume_in_use_is_not_reserved(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.create(volume), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_volume_in_use_is_not_connected_to_another_host(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.create(volume, connector=base.connector('two')), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_detaching_volume_is_not_reserved(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.refused(self.api.create(volume), 400)

    def test_volume_reserved_by_action_is_not_reserved_again(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.create(volume), 400)
        self.assertEqual([], self.attachments_of(volume))

    def test_volume_in_error_is_not_reserved(self) -> None:
        volume = self.volume()
        self.reset(volume, 'error')
        self.refused(self.api.create(volume), 400)

    def test_volume_in_maintenance_is_not_reserved(self) -> None:
        volume = self.volume()
        self.reset(volume, 'maintenance')
        self.refused(self.api.create(volume), 400)

    def test_attachment_of_a_volume_in_error_is_not_updated(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        self.needs_admin()
        self.reset(volume, 'error')
        # Cinder rejects the update with 409, whereas it rejects a create with 400.
        self.refused(self.api.update(attachment, base.connector()), 409)

    def test_error_message_names_the_volume_and_its_status(self) -> None:
        volume = self.volume()
        self.attach(volume)
        answer = self.api.create(volume)
        self.refused(answer, 400, volume)
        self.assertIn('in-use', answer.message)
