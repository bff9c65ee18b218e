"""Test cases of concurrent requests: one request succeeds, and the others have no effect."""
import functools

from blockattach_tempest_plugin.cases import base


class Races(base.Cases):
    """Cases of a volume without multiattach."""

    def one_wins(self, codes: list[int], won: int = 200) -> None:
        """Assert that one request succeeded, and that all others returned 400."""
        self.assertEqual([won] + [400] * (len(codes) - 1), codes)

    def test_of_two_that_reserve_a_volume_one_wins(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(*[
            lambda: self.api.create(volume, instance_uuid=base.server())] * 2)))
        self.assertEqual(['reserved'], self.states(volume))

    def test_of_six_that_reserve_a_volume_one_wins(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(*[lambda: self.api.create(volume)] * 6)))
        self.assertEqual(['reserved'], self.states(volume))

    def test_of_two_hosts_that_connect_to_a_volume_one_wins(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(
            lambda: self.api.create(volume, connector=base.connector('one')),
            lambda: self.api.create(volume, connector=base.connector('two')))))
        self.assertEqual(['attaching'], self.states(volume))

    def test_of_a_new_and_an_old_reservation_one_wins(self) -> None:
        volume = self.volume()
        new, old = base.at_once(lambda: self.api.create(volume),
                                lambda: self.api.act(volume, 'os-reserve'))
        self.assertIn((new.status, old.status), ((200, 400), (400, 202)))
        self.assertEqual(int(new.status == 200), len(self.attachments_of(volume)))

    def test_of_two_old_reservations_one_wins(self) -> None:
        volume = self.volume()
        self.one_wins(self.codes(base.at_once(
            *[lambda: self.api.act(volume, 'os-reserve')] * 2)), 202)
        self.has_status(volume, 'attaching')

    def test_of_two_that_begin_to_detach_one_wins(self) -> None:
        volume = self.volume()
        self.attach(volume)
        self.one_wins(self.codes(base.at_once(
            *[lambda: self.api.act(volume, 'os-begin_detaching')] * 2)), 202)
        self.has_status(volume, 'detaching')

    def test_of_an_attachment_and_a_removal_one_wins(self) -> None:
        volume = self.volume()
        made, removed = base.at_once(lambda: self.api.create(volume),
                                     lambda: self.api.send('DELETE', f'/volumes/{volume}'))
        self.assertIn((made.status, removed.status), ((200, 400), (400, 202), (404, 202)))

    def test_of_an_attachment_and_an_extension_one_wins(self) -> None:
        volume = self.volume()
        made, extended = base.at_once(
            lambda: self.api.create(volume),
            lambda: self.api.act(volume, 'os-extend', {'new_size': 2}))
        # Both succeed if the volume is extended before the attachment is created.
        self.assertIn((made.status, extended.status), ((200, 400), (400, 202), (200, 202)))
        if made.status == 400:
            self.cloud.wait_for(volume, 'available')

    def test_two_completions_at_once_both_succeed(self) -> None:
        volume = self.volume()
        attachment = self.connect(volume)
        self.assertEqual([204, 204], self.codes(base.at_once(
            *[lambda: self.api.complete(attachment)] * 2)))
        self.has_status(volume, 'in-use')

    def test_two_updates_at_once_leave_one_connection(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        answers = base.at_once(*[lambda: self.api.update(attachment, base.connector())] * 2)
        self.assertIn(200, self.codes(answers))
        self.assertLessEqual(set(self.codes(answers)), {200, 409})
        self.assertEqual(['attaching'], self.states(volume))

    def test_two_deletions_at_once_free_the_volume(self) -> None:
        volume = self.volume()
        attachment = self.attach(volume)
        answers = base.at_once(*[lambda: self.cloud.ender.delete(attachment)] * 2)
        self.assertIn(200, self.codes(answers))
        self.assertLessEqual(set(self.codes(answers)), {200, 404, 409})
        self.has_status(volume, 'available')

    def test_a_completion_and_a_deletion_leave_no_volume_in_use(self) -> None:
        # Cinder leaves such a volume behind in about one of six rounds.
        for _ in range(6):
            volume = self.volume()
            attachment = self.connect(volume)
            base.at_once(functools.partial(self.api.complete, attachment),
                         functools.partial(self.cloud.ender.delete, attachment))
            self.refused(self.api.show(attachment), 404)
            self.has_status(volume, 'available')

    def test_an_update_and_a_deletion_leave_nothing(self) -> None:
        volume = self.volume()
        attachment = self.reserve(volume)
        updated, deleted = base.at_once(
            lambda: self.api.update(attachment, base.connector()),
            lambda: self.cloud.ender.delete(attachment))
        self.answered(deleted, 200)
        self.assertIn(updated.status, (200, 404, 409))
        self.refused(self.api.show(attachment), 404)
        self.has_status(volume, 'available')

    def test_the_loser_of_a_race_leaves_no_attachment(self) -> None:
        volume = self.volume()
        base.at_once(*[lambda: self.api.create(volume, connector=base.connector())] * 4)
        self.assertEqual(1, len(self.attachments_of(volume)))

    def test_a_volume_is_free_for_the_loser_afterwards(self) -> None:
        volume = self.volume()
        won, = (answer.body['attachment']['id'] for answer in base.at_once(
            *[lambda: self.api.create(volume)] * 2) if answer.status == 200)
        self.end(won)
        self.reserve(volume)
