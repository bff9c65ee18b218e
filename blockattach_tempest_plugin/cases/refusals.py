"""Test cases of invalid requests: the code and the form of the response, and no side effects."""
from collections.abc import Callable
from typing import Any

from blockattach_tempest_plugin.cases import base

NOBODY = '5f1c9a5e-7a53-4d3f-9f3c-0a4b8a9d6e11'
"""ID of no resource."""

Body = Callable[[str], Any]
CREATES: tuple[tuple[str, int, Body], ...] = (
    ('an_attachment_of_no_volume_is_refused', 400, lambda volume: {'attachment': {}}),
    ('a_volume_that_is_no_id_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': 'none'}}),
    ('an_unknown_volume_is_not_found', 404,
     lambda volume: {'attachment': {'volume_uuid': NOBODY}}),
    ('a_server_that_is_null_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'instance_uuid': None}}),
    ('a_server_that_is_no_id_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'instance_uuid': 'none'}}),
    ('a_connector_that_is_text_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'connector': 'host'}}),
    ('a_connector_that_is_a_list_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'connector': []}}),
    ('an_unknown_key_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'colour': 'red'}}),
    ('an_unknown_key_beside_the_attachment_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume}, 'colour': 'red'}),
    ('a_mode_that_does_not_exist_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'mode': 'wo'}}),
    ('a_mode_that_is_null_is_refused', 400,
     lambda volume: {'attachment': {'volume_uuid': volume, 'mode': None}}),
    ('a_body_of_another_noun_is_refused', 400,
     lambda volume: {'volume': {'volume_uuid': volume}}),
    ('a_body_that_is_a_list_is_refused', 400, lambda volume: [volume]),
    ('a_body_that_is_no_json_is_refused', 400, lambda volume: b'{"attachment": '),
    ('a_body_that_is_missing_is_refused', 400, lambda volume: None),
)
"""Sentence, status code and body of requests to create an attachment."""
UPDATES: tuple[tuple[str, Any], ...] = (
    ('an_update_without_a_connector_is_refused', {'attachment': {}}),
    ('an_update_with_an_empty_connector_is_refused', {'attachment': {'connector': {}}}),
    ('an_update_with_a_connector_of_null_is_refused', {'attachment': {'connector': None}}),
    ('an_update_with_a_connector_of_text_is_refused', {'attachment': {'connector': 'host'}}),
    ('an_update_of_something_else_is_refused',
     {'attachment': {'connector': base.connector(), 'mode': 'ro'}}),
    ('an_update_of_another_noun_is_refused', {'volume': {'connector': base.connector()}}),
    ('an_update_that_is_no_json_is_refused', b'{'),
    ('an_update_without_an_initiator_is_refused',
     {'attachment': {'connector': {'host': 'one', 'ip': '192.0.2.1'}}}),
    ('an_update_without_a_host_is_refused',
     {'attachment': {'connector': {'initiator': 'iqn.2026-01.org.example:one'}}}),
)
"""Sentence and body of updates that return 400."""
TOO_EARLY: tuple[tuple[str, str, str, str], ...] = (
    ('attachments_are_not_listed_before_3_27', '3.26', 'GET', '/attachments'),
    ('attachments_are_not_listed_in_detail_before_3_27', '3.26', 'GET', '/attachments/detail'),
    ('an_attachment_is_not_shown_before_3_27', '3.26', 'GET', '/attachments/{id}'),
    ('an_attachment_is_not_created_before_3_27', '3.26', 'POST', '/attachments'),
    ('an_attachment_is_not_updated_before_3_27', '3.26', 'PUT', '/attachments/{id}'),
    ('an_attachment_is_not_deleted_before_3_27', '3.26', 'DELETE', '/attachments/{id}'),
    ('an_attachment_is_not_completed_before_3_44', '3.43', 'POST', '/attachments/{id}/action'),
)
"""Sentence, version, method and path of requests that a later microversion added."""
BODIES = {'POST': {'attachment': {'volume_uuid': NOBODY}}, '{id}/action': {'os-complete': {}},
          'PUT': {'attachment': {'connector': base.connector()}}}


@base.cases('refuses', CREATES)
class RefusedCreates(base.Cases):
    """Cases of invalid requests to create an attachment."""

    def refuses(self, status: int, body: Body) -> None:
        """Assert that a request returns this code, and that the volume is unchanged."""
        volume = self.volume()
        self.refused(self.api.send('POST', '/attachments', body(volume)), status)
        self.has_status(volume, 'available')
        self.assertEqual([], self.attachments_of(volume))

    def test_a_mode_is_refused_before_3_54(self) -> None:
        volume = self.volume()
        self.refused(self.api.create(volume, version='3.53', mode='ro'), 400)
        self.has_status(volume, 'available')

    def test_a_body_of_another_type_is_refused(self) -> None:
        self.refused(self.api.send('POST', '/attachments', b'<attachment/>',
                                   Content_Type='application/xml'), 415)

    def test_a_connector_without_an_initiator_is_refused_when_creating(self) -> None:
        volume = self.volume()
        self.refused(self.api.create(volume, connector={'host': 'one'}), 400)

    def test_a_connector_that_is_refused_leaves_no_attachment(self) -> None:
        volume = self.volume()
        refused = self.api.create(volume, connector={'host': 'one'})
        # Cinder returns 500 and keeps the reserved attachment, whose ID the caller does not learn.
        self.assertIn(refused.status, (400, 500))
        self.assertEqual([], self.attachments_of(volume))
        self.has_status(volume, 'available')

    def test_a_version_that_is_too_new_is_not_acceptable(self) -> None:
        self.refused(self.api.get('/attachments', '3.9999'), 406)

    def test_a_version_that_is_no_version_is_refused(self) -> None:
        self.refused(self.api.get('/attachments', 'three'), 400)


@base.cases('refuses', UPDATES)
class RefusedUpdates(base.Cases):
    """Cases of invalid requests to update, complete, show and delete attachments."""

    def refuses(self, body: Any) -> None:
        """Assert that an update returns 400, and that the attachment is unchanged."""
        volume = self.volume()
        attachment = self.reserve(volume)
        self.refused(self.api.send('PUT', f'/attachments/{attachment}', body), 400)
        self.assertEqual('reserved', self.shown(attachment)['status'])
        self.has_status(volume, 'reserved')

    def test_an_unknown_attachment_is_not_updated(self) -> None:
        self.refused(self.api.update(NOBODY, base.connector()), 404)

    def test_an_unknown_attachment_is_not_completed(self) -> None:
        self.refused(self.api.complete(NOBODY), 404)

    def test_an_unknown_attachment_is_not_shown(self) -> None:
        self.refused(self.api.show(NOBODY), 404)

    def test_an_unknown_attachment_is_not_deleted(self) -> None:
        self.refused(self.api.delete(NOBODY), 404)

    def test_an_id_that_is_none_is_not_found(self) -> None:
        self.refused(self.api.show('summary'), 404)

    def test_an_action_that_does_not_exist_is_refused(self) -> None:
        attachment = self.connect(self.volume())
        answer = self.api.send('POST', f'/attachments/{attachment}/action', {'os-fly': {}})
        self.refused(answer, 400)

    def test_a_deleted_attachment_is_not_updated(self) -> None:
        attachment = self.reserve(self.volume())
        self.end(attachment)
        self.refused(self.api.update(attachment, base.connector()), 404)

    def test_a_deleted_attachment_is_not_completed(self) -> None:
        attachment = self.reserve(self.volume())
        self.end(attachment)
        self.refused(self.api.complete(attachment), 404)


@base.cases('misses', TOO_EARLY)
class RefusedVersions(base.Cases):
    """Cases of requests at a microversion that does not support them."""

    def misses(self, version: str, method: str, path: str) -> None:
        """Assert that a request returns 404 for an existing attachment."""
        attachment = self.connect(self.volume())
        body = BODIES.get('{id}/action' if path.endswith('action') else method)
        # Cinder has no such method at the earlier version, and returns 404 instead of 406.
        self.refused(self.api.send(method, path.replace('{id}', attachment), body, version), 404)
        self.assertEqual('attaching', self.shown(attachment)['status'])


class RefusedStates(base.Cases):
    """Cases of requests that the status of the volume does not allow."""

    def reset(self, volume: str, status: str) -> None:
        """Reset the status of a volume as an administrator.

        The status is reset to available after the test, so that the volume can be deleted.
        """
        admin = self.needs_admin()
        self.answered(admin.act(volume, 'os-reset_status', {'status': status}), 202)
        self.addCleanup(admin.act, volume, 'os-reset_status', {'status': 'available'})

    def test_a_reserved_volume_is_not_reserved_for_another_server(self) -> None:
        volume = self.volume()
        self.reserve(volume, instance_uuid=base.server())
        self.refused(self.api.create(volume, instance_uuid=base.server()), 400)
        self.assertEqual(['reserved'], self.states(volume))

    def test_an_attaching_volume_is_not_reserved(self) -> None:
        volume = self.volume()
        self.connect(volume)
        self.refused(self.api.create(volume), 400)
        self.assertEqual(['attaching'], self.states(volume))

    def test_a_volume_in_use_is_not_reserved(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.create(volume), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_a_volume_in_use_is_not_connected_to_another_host(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.create(volume, connector=base.connector('two')), 400)
        self.assertEqual(['attached'], self.states(volume))

    def test_a_detaching_volume_is_not_reserved(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        self.refused(self.api.create(volume), 400)

    def test_a_volume_reserved_by_action_is_not_reserved(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.refused(self.api.create(volume), 400)
        self.assertEqual([], self.attachments_of(volume))

    def test_a_volume_in_error_is_not_reserved(self) -> None:
        volume = self.volume()
        self.reset(volume, 'error')
        self.refused(self.api.create(volume), 400)

    def test_a_volume_in_maintenance_is_not_reserved(self) -> None:
        volume = self.volume()
        self.reset(volume, 'maintenance')
        self.refused(self.api.create(volume), 400)

    def test_an_attachment_of_a_volume_in_error_is_not_updated(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        self.needs_admin()
        self.reset(volume, 'error')
        # Cinder rejects the update with 409, whereas it rejects a create with 400.
        self.refused(self.api.update(attachment, base.connector()), 409)

    def test_a_refusal_names_the_volume_and_its_status(self) -> None:
        volume = self.volume()
        self.attach(volume)
        answer = self.api.create(volume)
        self.refused(answer, 400, volume)
        self.assertIn('in-use', answer.message)
