"""Transfers: what two writers at once may do, on every database."""
import threading

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import transfers
from blockattach.db.attachments import attachments
from blockattach.db.volumes import volume_queries
from blockattach.domain import transfers as domain
from blockattach.tests.db import base
from blockattach.tests.db import test_lost_commits
from blockattach.tests.fixtures import breaking
from blockattach.tests.fixtures import make

ROUNDS = 12
OTHERS = ('b' * 32, 'c' * 32)


@base.on_every_server
class RaceTest(base.DatabaseTestCase):

    def at_once(self, *acts):
        """What each of them came to: its result, or its error."""
        barrier, outcomes = threading.Barrier(len(acts)), [None] * len(acts)

        def run(number, act):
            barrier.wait()
            try:
                outcomes[number] = act() or 'done'
            except errors.BlockattachError as exc:
                outcomes[number] = exc

        threads = [threading.Thread(target=run, args=one) for one in enumerate(acts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes

    def offer(self, volume):
        return transfers.create(self.database, volume.id, None, False, domain.seal('key'))

    def test_of_two_projects_one_gets_the_volume(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            made = self.offer(volume)
            outcomes = self.at_once(*[
                lambda made=made, project=project: transfers.accept(
                    self.database, made, project, 'u')
                for project in OTHERS])
            self.assertEqual(['TransferNotFound', 'str'],
                             sorted(type(one).__name__ for one in outcomes))
            self.assertEqual(OTHERS[outcomes.index('done')],
                             volume_queries.get(self.database, volume.id).project_id)

    def test_a_volume_is_offered_or_attached_and_never_both(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            outcomes = self.at_once(
                lambda volume=volume: self.offer(volume),
                lambda volume=volume: attachments.reserve(self.database, attachments.Wish(
                    volume.id, make.PROJECT, 'a-server'), 0))
            refused = [one for one in outcomes if isinstance(one, errors.InvalidVolume)]
            self.assertEqual(1, len(refused), outcomes)

    def test_an_offer_is_accepted_or_taken_back(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            made = self.offer(volume)
            accepted, withdrawn = self.at_once(
                lambda made=made: transfers.accept(self.database, made, OTHERS[0], 'u'),
                lambda made=made: transfers.withdraw(self.database, made))
            self.assertEqual(1, [accepted, withdrawn].count('done'))
            now = volume_queries.get(self.database, volume.id)
            self.assertEqual('available', now.status)
            self.assertEqual(OTHERS[0] if accepted == 'done' else make.PROJECT, now.project_id)


@base.on_every_server
class LostCommitTest(test_lost_commits.Case):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database)
        self.made = transfers.create(self.database, self.volume.id, None, False,
                                     domain.seal('key'))

    def test_an_offer_is_taken_back_once(self):
        self.cut(breaking.Where.AFTER, lambda: transfers.withdraw(self.broken, self.made))
        now = volume_queries.get(self.database, self.volume.id)
        self.assertEqual(('available', make.PROJECT), (now.status, now.project_id))

    def test_what_another_project_accepts_meanwhile_was_not_taken_back(self):
        connections = []

        def accept(connection):
            """By the time it is found out what was stored."""
            connections.append(connection)
            if len(connections) == 2:
                transfers.accept(self.database, self.made, OTHERS[0], 'u')

        sa.event.listen(self.broken.engine, 'engine_connect', accept)
        with self.assertRaises(errors.TransferNotFound):
            self.cut(breaking.Where.BEFORE, lambda: transfers.withdraw(self.broken, self.made))
        self.assertEqual(OTHERS[0],
                         volume_queries.get(self.database, self.volume.id).project_id)
