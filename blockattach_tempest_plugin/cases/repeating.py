"""Test cases of repeated requests, as sent by clients that lost the first response."""
from blockattach_tempest_plugin.cases import base
from blockattach_tempest_plugin.cases import legacy


class RepeatedRequests(base.Cases):
    """Cases of requests that are sent twice."""

    def test_repeated_update_is_accepted(self) -> None:
        # Nova sends an update up to five times if the response is 500 or 504.
        attachment = self.reserve(self.volume())
        for _ in range(2):
            self.answered(self.api.update(attachment, base.connector()))
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_repeated_update_returns_the_same_connection_info(self) -> None:
        attachment = self.reserve(self.volume())
        first, second = (
            self.answered(self.api.update(attachment, base.connector()))['attachment']
            for _ in range(2))
        self.assertEqual(first['connection_info'], second['connection_info'])

    def test_update_with_another_host_is_accepted(self) -> None:
        attachment = self.reserve(self.volume())
        for host in ('one', 'two'):
            self.answered(self.api.update(attachment, base.connector(host)))
        self.assertEqual('attaching', self.shown(attachment)['status'])

    def test_repeated_completion_is_accepted(self) -> None:
        volume = self.volume()
        attachment = self.connect(volume)
        for _ in range(2):
            self.answered(self.api.complete(attachment), 204)
        self.has_status(volume, 'in-use')

    def test_attached_attachment_is_completed_again_after_an_update(self) -> None:
        attachment = self.attach(self.volume())
        self.answered(self.api.update(attachment, base.connector()))
        self.answered(self.api.complete(attachment), 204)
        self.assertEqual('attached', self.shown(attachment)['status'])

    def test_repeated_deletion_returns_not_found(self) -> None:
        attachment = self.attach(self.volume())
        self.end(attachment)
        self.refused(self.cloud.ender.delete(attachment), 404)

    def test_repeated_deletion_keeps_a_newer_attachment(self) -> None:
        volume = self.volume()
        first = self.attach(volume)
        self.end(first)
        second = self.attach(volume)
        self.refused(self.cloud.ender.delete(first), 404)
        self.assertEqual('attached', self.shown(second)['status'])

    def test_second_reservation_for_the_same_server_creates_another_attachment(self) -> None:
        volume, server = self.volume(), base.server()
        # A server can have two attachments of a volume without multiattach, because a live
        # migration connects both hosts (Launchpad bug 1694530).
        first, second = (self.reserve(volume, instance_uuid=server) for _ in range(2))
        self.assertNotEqual(first, second)
        self.assertEqual(['reserved', 'reserved'], self.states(volume))

    def test_deletion_of_the_second_reservation_keeps_the_first(self) -> None:
        volume, server = self.volume(), base.server()
        first, second = (self.reserve(volume, instance_uuid=server) for _ in range(2))
        self.end(second)
        self.assertEqual('reserved', self.shown(first)['status'])
        self.has_status(volume, 'reserved')

    def test_repeated_unreserve_action_is_accepted(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        for _ in range(2):
            self.act(volume, 'os-unreserve')
        self.has_status(volume, 'available')

    def test_repeated_roll_detaching_action_is_accepted(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.act(volume, 'os-begin_detaching')
        for _ in range(2):
            self.act(volume, 'os-roll_detaching')
        self.has_status(volume, 'in-use')

    def test_repeated_attach_action_leaves_one_attachment(self) -> None:
        volume = self.volume()
        for _ in range(2):
            answer = self.api.act(volume, 'os-attach', legacy.HOST)
            self.assertIn(answer.status, (202, 400), answer.text)
        self.assertEqual(['attached'], self.states(volume))

    def test_repeated_attach_action_on_a_multiattach_volume_is_accepted(self) -> None:
        volume = self.shared_volume()
        for _ in range(2):
            self.act(volume, 'os-attach', legacy.HOST)
        self.assertEqual(['attached'], self.states(volume))

    def test_repeated_detach_action_is_accepted(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-attach', legacy.HOST)
        for _ in range(2):
            self.act(volume, 'os-detach', {})
        self.has_status(volume, 'available')

    def test_repeated_initialize_connection_action_returns_the_same_response(self) -> None:
        volume = self.volume()
        first, second = (self.act(volume, 'os-initialize_connection',
                                  {'connector': base.connector()}, 200) for _ in range(2))
        self.assertEqual(first, second)

    def test_repeated_terminate_connection_action_is_accepted(self) -> None:
        volume = self.volume()
        self.act(volume, 'os-reserve')
        self.act(volume, 'os-initialize_connection', {'connector': base.connector()}, 200)
        for _ in range(2):
            self.act(volume, 'os-terminate_connection', {'connector': base.connector()})
        self.has_status(volume, 'available')

    def test_repeated_idempotency_key_returns_the_same_attachment(self) -> None:
        self.needs_extension()
        volume, key = self.shared_volume(), base.server()
        made = [self.answered(self.api.send(
            'POST', '/attachments', {'attachment': {'volume_uuid': volume}},
            Idempotency_Key=key))['attachment']['id'] for _ in range(2)]
        self.assertEqual(made[0], made[1])
        self.assertEqual(1, len(self.attachments_of(volume)))

    def test_idempotency_key_of_another_request_is_rejected(self) -> None:
        self.needs_extension()
        key = base.server()
        for volume, status in ((self.volume(), 200), (self.volume(), 409)):
            self.answered(self.api.send(
                'POST', '/attachments', {'attachment': {'volume_uuid': volume}},
                Idempotency_Key=key), status)
