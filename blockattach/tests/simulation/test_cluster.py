"""Two volume managers of one cluster on one storage.

One of them dies, pauses, is partitioned or stopped, and the other one continues. Only one of them
acts on a volume or a pair at a time.
"""
from blockattach.storage.domain import connection
from lab.simulation import base
from lab.simulation import clients
from lab.simulation import deployment

LEASE_SECONDS = deployment.BACKEND_SECONDS
# Longer than a lease, and than the other member needs to notice.
PAST_SECONDS = LEASE_SECONDS + 8
SOON_SECONDS = 0.5
LOOKS_SECONDS = 2 * deployment.RECONCILE_SECONDS + 1
LONG = 3600
LONG_TIMES = (('control', 'backend_seconds', LONG), ('volume', 'create_seconds', LONG))
GRANTED = 'volume.attachments.after_grant'


class ClusterTestCase(base.ScenarioTestCase):

    CLOUD = {'clustered': True}

    @property
    def target(self):
        return self.cloud.world.storage.target

    def granted(self):
        """Return the hosts of the grants by the last part of their initiator names."""
        return {grant.initiator.rpartition(':')[2] for export in self.target.exports()
                for grant in export.grants}

    def calls(self, *verbs):
        kept = self.cloud.world.storage
        return [driver.faults.calls.get(verb, 0) for verb in verbs
                for driver in (kept.target, kept.store) if hasattr(driver, verb)]

    def until_called(self, verb, times):
        self.cloud.until(lambda: self.calls(verb) == [times])

    def states(self):
        return {one['host'].partition('@')[0]: one['state'] for one in self.api.sure(
            (200,), 'GET', '/os-services')['services'] if one['binary'] == 'cinder-volume'}

    def cycles(self, volumes, each=4):
        """Start clients that attach and detach volumes in the background."""
        def repeat(host, volume):
            for _ in range(each):
                made = self.api.attach(volume, host)
                self.api.complete(made)
                self.api.detach(made)
        return [self.cloud.beside(repeat, host, volumes[number % len(volumes)])
                for number, host in enumerate(clients.HOSTS)]

    def overtake(self, name):
        """Partition a member from the bus, and start the other one."""
        self.cloud.partition(name, database=False)
        self.cloud.start('volume-2')


class LoadTest(ClusterTestCase):

    def setUp(self):
        super().setUp()
        self.passed = lambda name: GRANTED in self.cloud.passed[name]

    def prepared(self):
        volumes = [self.api.volume(), self.api.volume()]
        steady = self.api.attach(volumes[0], 'steady')
        self.api.complete(steady)
        return volumes, steady

    def join(self, running):
        for one in running:
            one.result()
        self.assertEqual({'steady'}, self.granted())

    def test_member_killed_under_load_rejoins(self):
        volumes, steady = self.prepared()
        self.assertEqual('pair@disks', self.api.shown(volumes[0])[
            'os-vol-host-attr:host'].partition('#')[0])
        running = self.cycles(volumes)
        self.cloud.until(lambda: self.passed('volume-1') and self.passed('volume-2'),
                         'both granted a host')
        self.cloud.kill('volume-2')
        self.join(running)
        self.cloud.until(lambda: self.states() == {'storage-1': 'up', 'storage-2': 'down'})
        self.api.volume()
        self.cloud.start('volume-2')
        self.cloud.until(lambda: self.states() == {'storage-1': 'up', 'storage-2': 'up'})
        self.cloud.passed['volume-2'].clear()
        self.join(self.cycles(volumes))
        self.assertTrue(self.passed('volume-2'))
        self.assertEqual('in-use', self.api.shown(volumes[0])['status'])
        self.assertEqual({steady: 'attached'}, self.api.statuses())

    def test_member_paused_beyond_leases_rejoins(self):
        volumes, _ = self.prepared()
        self.cloud.pause('volume-2', at=GRANTED)
        running = self.cycles(volumes)
        self.cloud.until_at('volume-2', GRANTED)
        self.cloud.until(lambda: self.states()['storage-2'] == 'down')
        self.cloud.resume('volume-2')
        self.join(running)
        self.cloud.until(lambda: self.states()['storage-2'] == 'up')

    def test_partitioned_member_under_load_rejoins(self):
        for servers in ({'bus': False}, {'database': False}, {}):
            with self.subTest(servers=servers):
                volumes, steady = self.prepared()
                running = self.cycles(volumes, each=2)
                self.cloud.pass_time(SOON_SECONDS)
                self.cloud.partition('volume-2', **servers)
                self.cloud.pass_time(PAST_SECONDS)
                self.cloud.heal('volume-2')
                self.join(running)
                self.api.detach(steady)

    def test_grants_restored_after_shared_target_loss(self):
        volumes, steady = self.prepared()
        for host in clients.HOSTS:
            self.api.attach(volumes[1], host)
        before = self.granted()
        self.target.lose_everything()
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual(before, self.granted())


class EndTest(ClusterTestCase):
    """Handover of a member's unfinished work long before its deadline."""

    CLOUD = {'clustered': True,
             'settings': (('volume', 'worker_threads', 1), *LONG_TIMES)}
    DOWN = ('volume-2',)

    def ask_volume(self):
        return self.api.ask('POST', '/volumes', {'volume': {'size': 1}}).body['volume']['id']

    def test_graceful_stop_hands_over_queued_creates(self):
        self.cloud.backend.delay('create', 20)
        asked = [self.ask_volume() for _ in range(3)]
        self.cloud.pass_time(5)
        self.cloud.start('volume-2')
        self.assertTrue(self.cloud.stop('volume-1'))
        self.assertEqual(['available'] * 3, [self.api.settled(one) for one in asked])
        self.assertIn('db.work.take.after', self.cloud.passed['volume-2'])
        self.assertEqual([3], self.calls('create'))

    def test_stop_beyond_timeout_hands_over_running_work(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.backend.delay('create', 600)
        self.cloud.backend.delay('grant', 600)
        held = self.ask_volume()
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(5)
        self.cloud.start('volume-2')
        self.assertFalse(self.cloud.stop('volume-1', timeout=2))
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual('available', self.api.shown(held)['status'])
        self.assertEqual('attaching', self.api.status(made))
        asked.result()

    def test_restarted_member_resumes_own_work_before_deadline(self):
        made = self.api.attach(self.api.volume())
        place = 'volume.attachments.after_revoke'
        self.cloud.kill('volume-1', at=place)
        self.cloud.beside(self.api.ask, 'DELETE', f'/attachments/{made}')
        self.cloud.until_at('volume-1', place)
        self.cloud.start('volume-2')
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertNotIn('db.attachments.move.after', self.cloud.passed['volume-2'])
        self.cloud.start('volume-1')
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual({}, self.api.statuses())


class TurnsTest(ClusterTestCase):
    """Turns of two members. ``volume-1`` starts alone, so that the test controls who acts."""

    DOWN = ('volume-2',)

    def test_request_delivered_to_both_members_acted_on_once(self):
        self.cloud.start('volume-2')
        volume = self.api.volume()
        made = self.api.reserve(volume)
        self.cloud.bus.repeat('connect')
        self.cloud.backend.delay('grant', 3)
        self.assertEqual(200, self.api.connect(made).status)
        self.cloud.pass_time(5)
        self.assertEqual([1], self.calls('grant'))
        self.api.detach(made)
        self.cloud.bus.repeat('start_work')
        self.api.ask('DELETE', f'/volumes/{volume}')
        self.assertIsNone(self.api.settled(volume))
        self.assertEqual([1], self.calls('delete'))

    def test_two_hosts_attach_concurrently(self):
        self.cloud.start('volume-2')
        volume = self.api.volume()
        self.cloud.backend.delay('grant', 10)
        first = self.cloud.beside(self.api.attach, volume, 'a')
        self.cloud.pass_time(1)
        self.api.attach(volume, 'b')
        self.assertFalse(first.ended)
        first.result()
        self.assertEqual({'a', 'b'}, self.granted())

    def test_attach_during_detach_of_same_host_waits(self):
        volume = self.api.volume()
        leaving = self.api.attach(volume)
        self.cloud.backend.delay('revoke', 5)
        left = self.cloud.beside(self.api.detach, leaving)
        self.cloud.pass_time(1)
        self.overtake('volume-1')
        joined = self.cloud.beside(self.api.attach, volume)
        self.cloud.pass_time(2)
        self.assertFalse(joined.ended)
        joined.result()
        self.assertEqual({'a'}, self.granted())
        self.cloud.heal('volume-1')
        left.result()

    def test_connect_of_dead_member_resumed_after_deadline(self):
        for place in ('volume.attachments.before_grant', GRANTED):
            with self.subTest(place):
                self.cloud.start('volume-1')
                self.cloud.kill('volume-2')
                made = self.api.reserve(self.api.volume())
                self.cloud.kill('volume-1', at=place)
                asked = self.cloud.beside(self.api.connect, made)
                self.cloud.until_at('volume-1', place)
                self.cloud.start('volume-2')
                self.cloud.pass_time(LOOKS_SECONDS)
                self.assertNotIn(GRANTED, self.cloud.passed['volume-2'])
                self.cloud.pass_time(PAST_SECONDS)
                self.assertIn(GRANTED, self.cloud.passed['volume-2'])
                self.cloud.passed['volume-2'].clear()
                self.assertEqual('attaching', self.api.status(made))
                asked.result()

    def overtaken_while_it_shuts_out(self, volume):
        """Attach host a by ``volume-2`` while its revoke by ``volume-1`` exceeds the lease."""
        self.cloud.pass_time(1)
        self.overtake('volume-1')
        joined = self.cloud.beside(self.api.attach, volume)
        self.cloud.until(lambda: joined.ended)
        self.assertEqual({'a'}, self.granted())
        return joined.result()

    def test_revoke_beyond_lease_restores_new_grant(self):
        for fails in (False, True):
            with self.subTest(fails=fails):
                self.cloud.start('volume-1')
                self.cloud.heal('volume-1')
                self.cloud.kill('volume-2')
                volume = self.api.volume()
                leaving = self.api.attach(volume)
                done = self.calls('revoke')[0] + 1
                self.cloud.backend.delay('revoke', 2 * LEASE_SECONDS)
                if fails:
                    self.cloud.backend.lose_answer('revoke')
                self.cloud.beside(self.api.ask, 'DELETE', f'/attachments/{leaving}')
                made = self.overtaken_while_it_shuts_out(volume)
                self.until_called('revoke', done)
                self.cloud.pass_time(SOON_SECONDS)
                self.assertEqual({'a'}, self.granted())
                self.api.detach(made)

    def test_comparison_revoke_beyond_lease_restores_new_grant(self):
        """The comparison records no state that would reveal the conflict."""
        volume = self.api.volume()
        self.grant_by_hand(volume)
        self.cloud.backend.delay('revoke', LEASE_SECONDS + 5)
        self.cloud.pass_time(deployment.RECONCILE_SECONDS)
        before = self.calls('revoke')
        self.overtaken_while_it_shuts_out(volume)
        self.cloud.until(lambda: self.calls('revoke') != before)
        self.cloud.pass_time(SOON_SECONDS)
        self.assertEqual({'a'}, self.granted())

    def grant_by_hand(self, volume, host='a'):
        self.target.grant(
            connection.Export(volume, 'name', '/dev/null', 1),
            connection.Grant(volume, clients.connector(host)['initiator'],
                             connection.AccessMode.RW,
                             connection.Credential('somebody', 'secret-of-twelve'), '-by-hand'))

    def test_revoke_failing_beyond_lease_left_to_repair_worker(self):
        made = self.api.attach(self.api.volume())
        self.cloud.backend.delay('revoke', LEASE_SECONDS + 1, times=1000)
        self.cloud.backend.lose('revoke', times=1000)
        self.cloud.beside(self.api.ask, 'DELETE', f'/attachments/{made}')
        process = self.cloud.parts['volume-1'].process

        def at_it():
            return any(task.name == 'disconnect' for task in process.tasks)
        self.cloud.until(at_it)
        self.cloud.pass_time(10 * LEASE_SECONDS)
        self.assertFalse(at_it())
        self.cloud.backend.recover()

    def test_grant_beyond_lease_revoked_after_detach(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.backend.delay('grant', 3 * LEASE_SECONDS)
        self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(1)
        self.overtake('volume-1')
        self.cloud.pass_time(PAST_SECONDS)
        self.api.detach(made)
        self.assertEqual(set(), self.granted())
        before = self.calls('grant')
        self.cloud.until(lambda: self.calls('grant') != before)
        self.cloud.pass_time(SOON_SECONDS)
        self.assertEqual(set(), self.granted())

    def test_expired_lease_prevents_grant(self):
        made = self.api.reserve(self.api.volume())
        place = 'volume.attachments.before_grant'
        self.cloud.pause('volume-1', at=place)
        self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', place)
        self.cloud.start('volume-2')
        self.cloud.pass_time(PAST_SECONDS)
        self.api.detach(made)
        before = self.calls('grant')
        self.cloud.resume('volume-1')
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual((before, set()), (self.calls('grant'), self.granted()))

    def test_comparison_skips_pair_of_other_member(self):
        volume = self.api.volume()
        made = self.api.reserve(volume)
        self.cloud.pause('volume-1', at=GRANTED)
        self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', GRANTED)
        self.cloud.start('volume-2')
        before = self.calls('grant', 'revoke', 'unexport')
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual(before, self.calls('grant', 'revoke', 'unexport'))
        self.cloud.resume('volume-1')

    def test_members_repair_grants_concurrently(self):
        self.cloud.start('volume-2')
        volume = self.api.volume()
        for host in clients.HOSTS:
            self.api.attach(volume, host)
        before = self.granted()
        for host in clients.HOSTS[:3]:
            self.target.revoke(volume, clients.connector(host)['initiator'])
        self.cloud.pass_time(LOOKS_SECONDS)
        self.assertEqual(before, self.granted())

    def test_volume_delete_waits_for_running_grant(self):
        volume = self.api.volume()
        made = self.api.reserve(volume)
        self.cloud.backend.delay('grant', 10)
        self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(1)
        self.overtake('volume-1')
        self.assertEqual(202, self.api.ask(
            'POST', f'/volumes/{volume}/action',
            {'os-force_detach': {'attachment_id': made}}).status)
        self.api.ask('DELETE', f'/volumes/{volume}')
        self.assertIsNone(self.api.settled(volume))
        self.assertEqual((), self.target.exports())
