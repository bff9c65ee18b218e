"""Test cases of concurrent requests on one volume. A rejected request has no effect."""
import functools

from blockattach_tempest_plugin.cases import base


class ConcurrentRequests(base.Cases):
    """Cases of a volume without multiattach."""

    def one_wins(self, codes: list[int], won: int = 200) -> None:
        """Assert that one request succeeded, and that all other requests returned 400."""
        self.assertEqual([won] + [400] * (len(codes) - 1), codes)

    def test_only_one_of_two_concurrent_reservations_succeeds(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(*[
            lambda: self.api.create(volume, instance_uuid=base.server())] * 2)))
        self.assertEqual(['reserved'], self.states(volume))

    def test_only_one_of_six_concurrent_reservations_succeeds(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(*[lambda: self.api.create(volume)] * 6)))
        self.assertEqual(['reserved'], self.states(volume))

    def test_only_one_of_two_concurrent_connections_succeeds(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(
            lambda: self.api.create(volume, connector=base.connector('one')),
            lambda: self.api.create(volume, connector=base.connector('two')))))
        self.assertEqual(['attaching'], self.states(volume))

    def test_only_one_of_a_creation_and_a_concurrent_reserve_action_succeeds(self) -> None:
        volume = self.volume()
        new, old = base.at_once(lambda: self.api.create(volume),
                                lambda: self.api.act(volume, 'os-reserve'))
        self.assertIn((new.status, old.status), ((200, 400), (400, 202)))
        self.assertEqual(int(new.status == 200), len(self.attachments_of(volume)))

    def test_only_one_of_two_concurrent_reserve_actions_succeeds(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(
            *[lambda: self.api.act(volume, 'os-reserve')] * 2)), 202)
        self.has_status(volume, 'attaching')

    def test_only_one_of_two_concurrent_begin_detaching_actions_succeeds(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.one_wins(self.codes(base.at_once(
            *[lambda: self.api.act(volume, 'os-begin_detaching')] * 2)), 202)
        self.has_status(volume, 'detaching')

    def test_only_one_of_a_creation_and_a_concurrent_volume_deletion_succeeds(self) -> None:
        volume = self.volume()
        made, removed = base.at_once(lambda: self.api.create(volume),
                                     lambda: self.api.send('DELETE', f'/volumes/{volume}'))
        self.assertIn((made.status, removed.status), ((200, 400), (400, 202), (404, 202)))

    def test_at_least_one_of_a_creation_and_a_concurrent_extend_succeeds(self) -> None:
        volume = self.volume()
        made, extended = base.at_once(
            lambda: self.api.create(volume),
            lambda: self.api.act(volume, 'os-extend', {'new_size': 2}))
        # Both succeed if the volume is extended before the attachment is created.
        self.assertIn((made.status, extended.status), ((200, 400), (400, 202), (200, 202)))
        if made.status == 400:
            self.cloud.wait_for(volume, 'available')

    def test_two_concurrent_completions_both_succeed(self) -> None:
        volume = self.volume()
        attachment = self.connect(volume)
        self.assertEqual([204, 204], self.codes(base.at_once(
            *[lambda: self.api.complete(attachment)] * 2)))
        self.has_status(volume, 'in-use')

    def test_two_concurrent_updates_leave_one_attaching_attachment(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        answers = base.at_once(*[lambda: self.api.update(attachment, base.connector())] * 2)
        self.assertIn(200, self.codes(answers))
        self.assertLessEqual(set(self.codes(answers)), {200, 409})
        self.assertEqual(['attaching'], self.states(volume))

    def test_two_concurrent_deletions_leave_the_volume_available(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        answers = base.at_once(*[lambda: self.cloud.ender.delete(attachment)] * 2)
        self.assertIn(200, self.codes(answers))
        self.assertLessEqual(set(self.codes(answers)), {200, 404, 409})
        self.has_status(volume, 'available')

    def test_concurrent_completion_and_deletion_leave_the_volume_available(self) -> None:
        # In about one of six rounds, Cinder leaves the volume in-use without an attachment.
        for _ in range(6):
            volume = self.volume()
            attachment = self.connect(volume)
            base.at_once(functools.partial(self.api.complete, attachment),
                         functools.partial(self.cloud.ender.delete, attachment))
            self.refused(self.api.show(attachment), 404)
            self.has_status(volume, 'available')

    def test_concurrent_update_and_deletion_leave_no_attachment(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        updated, deleted = base.at_once(
            lambda: self.api.update(attachment, base.connector()),
            lambda: self.cloud.ender.delete(attachment))
        self.answered(deleted, 200)
        self.assertIn(updated.status, (200, 404, 409))
        self.refused(self.api.show(attachment), 404)
        self.has_status(volume, 'available')

    def test_failed_concurrent_creations_leave_no_attachment(self) -> None:
        volume = self.volume()
        base.at_once(*[lambda: self.api.create(volume, connector=base.connector())] * 4)
        self.assertEqual(1, len(self.attachments_of(volume)))

    def test_volume_is_reserved_again_after_a_concurrent_reservation_is_deleted(self) -> None:
        volume = self.volume()
        won, = (answer.body['attachment']['id'] for answer in base.at_once(
            *[lambda: self.api.create(volume)] * 2) if answer.status == 200)
        self.end(won)
        self.reserve(volume)
