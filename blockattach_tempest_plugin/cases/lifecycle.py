"""Test cases of the lifecycle of an attachment, from creation to deletion."""
from blockattach_tempest_plugin.cases import base

SUMMARY = {'id', 'status', 'instance', 'volume_id'}
DETAIL = SUMMARY | {'attached_at', 'detached_at', 'attach_mode', 'connection_info'}
IN_VOLUME = {'id', 'attachment_id', 'volume_id', 'server_id', 'host_name', 'device',
             'attached_at'}


class Lifecycle(base.Cases):
    """Cases of creating, updating, completing and deleting attachments."""

    def test_attachment_without_a_connector_is_reserved(self) -> None:
        made = self.answered(self.api.create(self.volume()))['attachment']
        self.assertEqual('reserved', made['status'])

    def test_attachment_with_a_null_connector_is_reserved(self) -> None:
        attachment = self.reserve(self.volume(), connector=None)
        self.assertEqual('reserved', self.shown(attachment)['status'])

    def test_attachment_with_an_empty_connector_is_reserved(self) -> None:
        attachment = self.reserve(self.volume(), connector={})
        self.assertEqual('reserved', self.shown(attachment)['status'])

    def test_reserved_attachment_has_no_connection_info(self) -> None:
        self.assertFalse(self.shown(self.reserve(self.volume()))['connection_info'])

    def test_reserved_attachment_shows_its_server(self) -> None:
        server = base.server()
        attachment = self.reserve(self.volume(), instance_uuid=server)
        self.assertEqual(server, self.shown(attachment)['instance'])

    def test_attachment_without_a_server_has_a_null_instance(self) -> None:
        self.assertIsNone(self.shown(self.reserve(self.volume()))['instance'])

    def test_reserved_attachment_has_empty_attached_at_and_detached_at(self) -> None:
        shown = self.shown(self.reserve(self.volume()))
        # Cinder returns an empty text instead of null.
        self.assertEqual(('', ''), (shown['attached_at'], shown['detached_at']))

    def test_creation_response_has_all_attachment_keys(self) -> None:
        made = self.answered(self.api.create(self.volume()))['attachment']
        self.assertEqual(DETAIL, set(made))

    def test_show_response_has_all_attachment_keys(self) -> None:
        self.assertEqual(DETAIL, set(self.shown(self.reserve(self.volume()))))

    def test_attachment_shows_its_volume_id(self) -> None:
        volume = self.volume()
        self.assertEqual(volume, self.shown(self.reserve(volume))['volume_id'])

    def test_attachment_with_a_connector_is_attaching(self) -> None:
        self.assertEqual('attaching', self.shown(self.connect(self.volume()))['status'])

    def test_creation_with_a_connector_returns_connection_info(self) -> None:
        made = self.answered(self.api.create(self.volume(), connector=base.connector()))
        self.assertIn('driver_volume_type', made['attachment']['connection_info'])

    def test_creation_with_a_connector_returns_status_attaching(self) -> None:
        made = self.answered(self.api.create(self.volume(), connector=base.connector()))
        self.assertEqual('attaching', made['attachment']['status'])

    def test_update_returns_connection_info(self) -> None:
        attachment = self.reserve(self.volume())
        updated = self.answered(self.api.update(attachment, base.connector()))['attachment']
        self.assertIn('driver_volume_type', updated['connection_info'])

    def test_reserved_attachment_is_attaching_after_an_update(self) -> None:
        attachment = self.reserve(self.volume())
        self.answered(self.api.update(attachment, base.connector()))
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_update_sets_attached_at(self) -> None:
        attachment = self.reserve(self.volume())
        self.answered(self.api.update(attachment, base.connector()))
        self.assertRegex(self.shown(attachment)['attached_at'], r'^\d{4}-\d\d-\d\dT')

    def test_connection_info_has_attachment_id_and_volume_id(self) -> None:
        volume = self.volume()
        attachment = self.connect(volume)
        info = self.shown(attachment)['connection_info']
        self.assertEqual((attachment, volume), (info['attachment_id'], info['volume_id']))

    def test_additional_connector_keys_are_accepted(self) -> None:
        attachment = self.reserve(self.volume(), connector=base.connector(
            platform='x86_64', os_type='linux', multipath=False, **{'system uuid': '1'}))
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_completion_response_has_no_body(self) -> None:
        answer = self.api.complete(self.connect(self.volume()))
        self.assertEqual((204, ''), (answer.status, answer.text))

    def test_completed_attachment_is_attached(self) -> None:
        self.assertEqual('attached', self.shown(self.attach(self.volume()))['status'])

    def test_attachment_without_a_connector_is_completed(self) -> None:
        attachment = self.reserve(self.volume())
        self.answered(self.api.complete(attachment), 204)
        self.assertEqual('attached', self.shown(attachment)['status'])

    # The value of os-complete depends on the client: python-cinderclient sends null, and
    # openstacksdk sends the ID.

    def test_completion_accepts_an_empty_object(self) -> None:
        self.answered(self.api.complete(self.connect(self.volume()), {}), 204)

    def test_completion_accepts_the_attachment_id(self) -> None:
        attachment = self.connect(self.volume())
        self.answered(self.api.complete(attachment, attachment), 204)

    def test_attached_attachment_is_attaching_after_an_update(self) -> None:
        attachment = self.attach(self.volume())
        self.answered(self.api.update(attachment, base.connector()))
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_completion_keeps_connection_info(self) -> None:
        attachment = self.connect(self.volume())
        before = self.shown(attachment)['connection_info']
        self.answered(self.api.complete(attachment), 204)
        self.assertEqual(before, self.shown(attachment)['connection_info'])

    def test_reserved_attachment_is_deleted(self) -> None:
        attachment = self.reserve(self.volume())
        self.end(attachment)
        self.refused(self.api.show(attachment), 404)

    def test_attaching_attachment_is_deleted(self) -> None:
        attachment = self.connect(self.volume())
        self.end(attachment)
        self.refused(self.api.show(attachment), 404)

    def test_attached_attachment_is_deleted(self) -> None:
        attachment = self.attach(self.volume())
        self.end(attachment)
        self.refused(self.api.show(attachment), 404)

    def test_deletion_of_the_last_attachment_returns_an_empty_list(self) -> None:
        self.assertEqual([], self.end(self.attach(self.volume())))

    def test_deletion_returns_the_remaining_attachments(self) -> None:
        volume = self.shared_volume()
        first, second = self.attach(volume, 'one'), self.attach(volume, 'two')
        left = self.end(first)
        self.assertEqual([(second, SUMMARY)], [(one['id'], set(one)) for one in left])

    def test_detached_volume_is_attached_again(self) -> None:
        volume = self.volume()
        self.end(self.attach(volume))
        self.assertEqual('attached', self.shown(self.attach(volume, 'two'))['status'])

    def test_volume_shows_its_attachment_with_all_keys(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        shown, = self.shown_volume(volume)['attachments']
        self.assertEqual((IN_VOLUME, volume, attachment),
                         (set(shown), shown['id'], shown['attachment_id']))

    def test_volume_does_not_show_an_attaching_attachment(self) -> None:
        volume = self.volume()
        self.connect(volume)
        # The list in a volume contains only attachments with the status attached.
        self.assertEqual([], self.shown_volume(volume)['attachments'])

    def test_volume_shows_the_connector_mountpoint_as_device(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume, connector=base.connector(mountpoint='/dev/vdb'))
        self.answered(self.api.complete(attachment), 204)
        self.assertEqual('/dev/vdb', self.shown_volume(volume)['attachments'][0]['device'])

    def test_attached_volume_is_not_deleted(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.refused(self.api.send('DELETE', f'/volumes/{volume}'), 400)
        self.has_status(volume, 'in-use')

    def test_reserved_volume_is_not_deleted(self) -> None:
        volume = self.volume()
        self.reserve(volume)
        self.refused(self.api.send('DELETE', f'/volumes/{volume}'), 400)
