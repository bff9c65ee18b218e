"""Server actions whose agent, volume or attachment disappears.

Each action ends, and the server can be deleted.
"""
import contextlib
import itertools

import sqlalchemy as sa

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import http
from blockattach.tests.functional.servers import cloud

ELSEWHERE = {'host': None, 'block_migration': 'auto'}


class StuckTestCase(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.root, self.other = self.volume(multiattach=True), self.volume(multiattach=True)

    def kill(self, host):
        """Stop the agent of a host and wait until it counts as down."""
        self.dead = self.cloud.agents.pop(host)
        self.dead.server.stop()
        self.cloud.later()

    def revive(self, host):
        self.cloud.agents[host] = self.dead
        self.dead.server.start()
        self.cloud.later()

    def assert_at_rest(self, made, *statuses):
        """Check that the server has no task state and one of the statuses."""
        shown = self.server(made)
        self.assertIsNone(shown['OS-EXT-STS:task_state'])
        self.assertIn(shown['status'], statuses)

    def assert_can_be_deleted(self, *servers):
        for made in servers:
            self.ask('DELETE', f'/servers/{made}')
        self.cloud.settle()
        for _ in range(2):
            self.cloud.later()
        for made in servers:
            self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual(([], []), (self.attachments(self.root), self.attachments(self.other)))

    def remove_attachments(self, volume):
        """Delete the attachments of a volume as an operator of Block Storage does."""
        storage = http.Persona(self.cloud.storage, 'admin,member,reader', service_token=True)
        for one in storage.get(f'/attachments?volume_id={volume}&all_tenants=1').body[
                'attachments']:
            self.assertEqual(200, storage.delete(f'/attachments/{one["id"]}').status)


class GoneDatabaseTest(StuckTestCase):
    """Database outage during a server action that ends while the process still runs.

    The process cannot even record that it has given the action up.
    """

    def gone(self, after):
        """Fail each statement from number ``after`` on, and return a function that ends that."""
        statements = itertools.count()

        def fail(*_arguments):
            if next(statements) >= after:
                raise sa.exc.OperationalError('SELECT', {}, Exception('the database is gone'))

        sa.event.listen(self.cloud.engine, 'before_cursor_execute', fail)
        return lambda: sa.event.remove(self.cloud.engine, 'before_cursor_execute', fail)

    def go_on(self):
        """Return True if an action under way met the outage."""
        try:
            self.cloud.settle()
        except sa.exc.OperationalError:
            with contextlib.suppress(sa.exc.OperationalError):
                self.cloud.settle()
            return True
        return False

    def play(self, begin):
        """Repeat an action with the outage from each of its statements on.

        The gate plays only each ninth statement.
        """
        for after in itertools.count(0, 1 if exhaustive.wanted() else 9):
            with self.subTest(after=after):
                made = begin()
                back = self.gone(after)
                failed = self.go_on()
                back()
                for _ in range(4):
                    self.cloud.clock.advance(20)
                    self.cloud.conductor.renew()
                    self.cloud.conductor.look()
                    self.cloud.settle()
                for one in made:
                    self.assert_at_rest(one, 'ACTIVE', 'ERROR')
                self.assert_can_be_deleted(*made)
                if not failed:
                    return

    def test_build_of_several_survives_database_outage(self):
        def begin():
            self.create(self.root, max_count=3, host='host-a', settle=False)
            return [one['id'] for one in self.asked(200, 'GET', '/servers')['servers']]
        self.play(begin)

    def test_attach_survives_database_outage(self):
        def begin():
            made = self.create(self.root, host='host-a')
            self.attach(made, self.other, settle=False)
            return [made]
        self.play(begin)


class DeadAgentTest(StuckTestCase):

    def test_server_action_on_dead_host_ends(self):
        """The server can be evacuated afterwards."""
        for number, (name, body) in enumerate((
                ('os-stop', None), ('reboot', {'type': 'HARD'}), ('shelve', None),
                ('rebuild', {'imageRef': ''}))):
            with self.subTest(name):
                made = self.create(self.root, host='host-a')
                self.attach(made, self.other)
                self.kill('host-a')
                self.ask('POST', f'/servers/{made}/action', {name: body})
                self.cloud.settle()
                self.cloud.later()
                self.assert_at_rest(made, 'ACTIVE', 'ERROR')
                self.act(made, 'evacuate', {'host': None}, 200)
                self.assertEqual('host-b', self.server(made)['OS-EXT-SRV-ATTR:host'], number)
                self.revive('host-a')
                self.assertEqual({}, self.hosts['host-a'].servers())
                self.assert_can_be_deleted(made)

    def test_attach_on_dead_host_leaves_no_attachment(self):
        made = self.create(self.root, host='host-a')
        self.kill('host-a')
        self.ask('POST', f'/servers/{made}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': self.other}})
        self.cloud.settle()
        self.cloud.later()
        self.assertEqual(({self.root: 'rw'}, []),
                         (self.volumes(made), self.attachments(self.other)))
        self.act(made, 'evacuate', {'host': None}, 200)
        self.assertEqual('host-b', self.server(made)['OS-EXT-SRV-ATTR:host'])

    def test_attach_undone_while_agent_dead_unplugs_disk(self):
        """The compute API dies at each request of an attach, and the agent right after it."""
        made = self.create(self.root, host='host-a')
        self.cloud.cutting.begin()
        self.attach(made, self.other)
        asked = list(self.cloud.cutting.asked)
        self.detach(made, self.other)
        for place, behind in enumerate(asked):
            with self.subTest(behind):
                self.cloud.cutting.begin(place)
                with contextlib.suppress(cloud.Death):
                    self.attach(made, self.other)
                self.assertIsNone(self.cloud.cutting.at)
                self.kill('host-a')
                self.cloud.later()
                self.assertEqual([], self.attachments(self.other))
                self.revive('host-a')
                self.cloud.later()
                self.assertEqual({self.root: 'rw'}, self.volumes(made))
                self.assertEqual([self.root], list(self.hosts['host-a'].disks(made)))
        self.attach(made, self.other)
        self.assert_can_be_deleted(made)

    def test_detach_on_dead_host_allows_evacuation(self):
        made = self.create(self.root, host='host-a')
        self.attach(made, self.other)
        self.kill('host-a')
        self.detach(made, self.other)
        self.cloud.later()
        self.act(made, 'evacuate', {'host': None}, 200)
        self.assertEqual('host-b', self.server(made)['OS-EXT-SRV-ATTR:host'])

    def test_evacuate_without_other_host_keeps_server(self):
        """The server keeps its host and its attachment."""
        made = self.create(self.root, host='host-a')
        self.kill('host-b')
        away = self.dead
        self.kill('host-a')
        self.act(made, 'evacuate', {'host': None}, 200)
        self.assert_at_rest(made, 'ACTIVE')
        self.assertEqual([(made, 'host-a', 'rw', 'attached')], self.attachments(self.root))
        self.revive('host-a')
        self.act(made, 'reboot', {'type': 'HARD'})
        self.assert_at_rest(made, 'ACTIVE')
        self.dead = away

    def test_evacuate_to_host_that_dies_ends(self):
        made = self.create({'uuid': self.root, 'source_type': 'volume', 'boot_index': 0,
                            'destination_type': 'volume'}, host='host-a')
        self.kill('host-a')
        gone = self.dead
        self.hosts['host-b'].failing.append('spawn')
        self.act(made, 'evacuate', {'host': 'host-b'}, 200, settle=False)
        self.kill('host-b')
        self.cloud.agents['host-a'] = gone
        gone.server.start()
        for _ in range(2):
            self.cloud.later()
        self.assert_at_rest(made, 'ACTIVE', 'ERROR')
        self.assert_can_be_deleted(made)

    def test_delete_server_whose_migration_lost_both_hosts(self):
        """The source and the destination of a live migration are dead."""
        made = self.create(self.root, host='host-a')
        self.cloud.cutting.begin(4)
        self.act(made, 'os-migrateLive', ELSEWHERE, settle=False)
        with contextlib.suppress(cloud.Death):
            self.cloud.settle()
        for host in ('host-a', 'host-b'):
            self.kill(host)
        self.assert_can_be_deleted(made)


class MoveWithoutDestinationTest(StuckTestCase):
    """Live migration interrupted around its send step while the destination agent is down."""

    def cut_off(self, place, hang=None):
        made = self.create(self.root, host='host-a')
        self.cloud.cutting.begin(place, hang)
        self.act(made, 'os-migrateLive', ELSEWHERE, settle=False)
        with contextlib.suppress(cloud.Death):
            self.cloud.settle()
        return made, self.cloud.cutting.asked[-1]

    def cut_off_ahead_of_send(self):
        """Interrupt a live migration when its destination is ready to receive."""
        made, behind = self.cut_off(self.place_of('receive on host-b') + 0.5, self.die)
        self.assertEqual('receive on host-b', behind)
        self.cloud.cutting.begin()
        return made

    @staticmethod
    def die():
        raise cloud.Death

    def assert_runs_on(self, made, host, other):
        self.assert_at_rest(made, 'ACTIVE')
        self.assertEqual(host, self.server(made)['OS-EXT-SRV-ATTR:host'])
        self.assertEqual([(made, host, 'rw', 'attached')], self.attachments(self.root))
        self.assertEqual((['running'], False), (
            [self.hosts[host].servers().get(made)], made in self.hosts[other].servers()))

    def place_of(self, what):
        """Return the index of a request among the requests of a live migration."""
        made = self.create(self.root, host='host-a')
        self.cloud.cutting.begin()
        self.act(made, 'os-migrateLive', ELSEWHERE)
        found = self.cloud.cutting.asked.index(what)
        self.assert_can_be_deleted(made)
        return found

    def test_unsendable_migration_keeps_server_on_source(self):
        """The guest was not sent, and the source fails to send it now."""
        made = self.cut_off_ahead_of_send()
        self.hosts['host-a'].failing.append('send')
        self.kill('host-b')
        self.cloud.later()
        self.revive('host-b')
        self.assert_runs_on(made, 'host-a', 'host-b')
        self.assert_can_be_deleted(made)

    def test_unsent_migration_finishes_on_destination(self):
        made = self.cut_off_ahead_of_send()
        self.kill('host-b')
        self.cloud.later()
        self.assert_runs_on(made, 'host-b', 'host-a')
        self.revive('host-b')
        self.assert_runs_on(made, 'host-b', 'host-a')
        self.assert_can_be_deleted(made)

    def test_sent_migration_finishes_on_destination(self):
        made, behind = self.cut_off(self.place_of('send on host-a'))
        self.assertEqual('send on host-a', behind)
        self.cloud.cutting.begin()
        self.kill('host-b')
        self.cloud.later()
        self.assert_runs_on(made, 'host-b', 'host-a')
        self.revive('host-b')
        self.assert_can_be_deleted(made)


class TakenAwayTest(StuckTestCase):

    def test_server_action_without_its_attachment_ends(self):
        for name, body, status in (
                ('os-stop', None, 202), ('reboot', {'type': 'HARD'}, 202), ('shelve', None, 202),
                ('rebuild', {'imageRef': ''}, 202), ('os-migrateLive', ELSEWHERE, 202),
                ('resize', {'flavorRef': '2'}, 202), ('migrate', None, 202)):
            with self.subTest(name):
                made = self.create(self.root)
                self.attach(made, self.other)
                self.remove_attachments(self.other)
                self.act(made, name, body, status)
                self.cloud.later()
                self.assertIsNone(self.server(made)['OS-EXT-STS:task_state'])
                self.assert_can_be_deleted(made)

    def test_detach_volume_without_attachment_succeeds(self):
        made = self.create(self.root)
        self.attach(made, self.other)
        self.remove_attachments(self.other)
        self.detach(made, self.other)
        self.assertEqual({self.root: 'rw'}, self.volumes(made))

    def test_unshelve_without_its_volume_ends(self):
        """The volume is deleted while the server that uses it is shelved."""
        for end in ('unshelve', 'shelveOffload'):
            with self.subTest(end):
                made = self.create(self.root)
                plain = self.volume()
                self.attach(made, plain)
                self.act(made, 'shelve')
                if end == 'unshelve':
                    self.act(made, 'shelveOffload')
                self.remove_attachments(plain)
                self.assertEqual(202, self.cloud.storage.as_admin.delete(
                    f'/volumes/{plain}').status)
                self.cloud.storage.work.settle()
                self.act(made, end)
                self.cloud.later()
                self.assertIsNone(self.server(made)['OS-EXT-STS:task_state'])
                self.assert_can_be_deleted(made)

    def test_delete_server_keeps_volume_with_snapshot(self):
        plain = self.volume()
        made = self.create({'uuid': plain, 'source_type': 'volume', 'destination_type': 'volume',
                            'boot_index': 0, 'delete_on_termination': True})
        taken = self.cloud.storage.as_member.post('/snapshots', {'snapshot': {
            'volume_id': plain, 'force': True}})
        self.assertEqual(202, taken.status, taken.body)
        self.cloud.storage.work.settle()
        self.assert_can_be_deleted(made)
        self.assertEqual('available', self.status_of_volume(plain))

    def test_rebuild_without_volume_taken_by_other_server_fails(self):
        """The failed server is rebuilt after another server has attached its volume."""
        for name, body in (('rebuild', {'imageRef': ''}), ('reboot', {'type': 'HARD'})):
            with self.subTest(name):
                plain = self.volume()
                self.hosts['host-a'].failing.append('spawn')
                made = self.create(plain, host='host-a')
                self.assertEqual('ERROR', self.server(made)['status'])
                second = self.create(plain)
                self.assertEqual('ACTIVE', self.server(second)['status'])
                self.ask('POST', f'/servers/{made}/action', {name: body}, roles='member,reader')
                self.cloud.settle()
                self.cloud.later()
                self.assert_at_rest(made, 'ERROR')
                self.assert_can_be_deleted(made)
                self.assertEqual([second], [one[0] for one in self.attachments(plain)])
                self.assert_can_be_deleted(second)

    def test_delete_server_that_no_host_spawns(self):
        made = self.create(self.root, host='host-a')
        self.hosts['host-a'].failing += ['spawn'] * 50
        self.hosts['host-b'].failing += ['spawn'] * 50
        self.act(made, 'migrate', None)
        self.cloud.later()
        self.assert_can_be_deleted(made)


class TwoAtOnceTest(StuckTestCase):

    def put(self, made, new, status=202):
        self.asked(status, 'PUT', f'/servers/{made}/os-volume_attachments/{self.other}', {
            'volumeAttachment': {'volumeId': new}})

    def test_swap_of_detaching_volume_rejected(self):
        made = self.create(self.root)
        self.attach(made, self.other)
        self.detach(made, self.other, settle=False)
        self.put(made, self.volume(multiattach=True), 409)
        self.cloud.settle()
        self.assert_at_rest(made, 'ACTIVE')
        self.assert_can_be_deleted(made)

    def test_second_swap_of_volume_rejected(self):
        made, new = self.create(self.root), self.volume(multiattach=True)
        self.attach(made, self.other)
        self.put(made, new)
        self.put(made, self.volume(multiattach=True), 409)
        self.attach(made, new, 409)
        self.cloud.settle()
        self.assertEqual({self.root: 'rw', new: 'rw'}, self.volumes(made))
        self.assert_can_be_deleted(made)

    def test_repeated_delete_notifies_once(self):
        made = self.create(self.root)
        for _ in range(2):
            self.asked(204, 'DELETE', f'/servers/{made}')
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual(['instance.delete.start', 'instance.delete.end'], [
            event for event, _ in self.cloud.notified.events
            if event.startswith('instance.delete')])


class OtherAdministratorTest(StuckTestCase):
    """Administrator of another project who migrates and deletes servers."""

    def test_interrupted_migration_by_other_project_recovered(self):
        for place in range(9):
            with self.subTest(place):
                made = self.create(self.root, host='host-a')
                self.cloud.cutting.begin(place)
                self.act(made, 'os-migrateLive', ELSEWHERE, settle=False,
                         project=http.OTHER_PROJECT)
                with contextlib.suppress(cloud.Death):
                    self.cloud.settle()
                self.cloud.cutting.begin()
                self.cloud.later()
                self.assert_at_rest(made, 'ACTIVE')
                host = self.server(made)['OS-EXT-SRV-ATTR:host']
                self.assertEqual([(made, host, 'rw', 'attached')], self.attachments(self.root))
                self.assert_can_be_deleted(made)

    def test_delete_server_by_other_project(self):
        made = self.create(self.root)
        self.asked(204, 'DELETE', f'/servers/{made}', project=http.OTHER_PROJECT)
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual([], self.attachments(self.root))


class ReadOnlyTest(StuckTestCase):
    """Read-only volumes that must not reach an agent too old to enforce access modes."""

    OLD = ('host-a',)

    def assert_never_on_the_old_one(self, made):
        if made in self.hosts['host-a'].servers():
            self.assertNotIn('ro', self.hosts['host-a'].disks(made).values())

    def test_revert_resize_to_old_agent_refused(self):
        made = self.create(self.root, host='host-a')
        self.act(made, 'migrate', None)
        self.assertEqual('host-b', self.server(made)['OS-EXT-SRV-ATTR:host'])
        self.attach(made, self.other, attach_mode='ro')
        self.act(made, 'revertResize')
        self.assert_never_on_the_old_one(made)
        self.assert_at_rest(made, 'VERIFY_RESIZE')
        self.assertEqual([(made, 'host-b', 'ro', 'attached')], self.attachments(self.other))

    def test_server_action_on_downgraded_agent_refused(self):
        for name, body, status in (
                ('reboot', {'type': 'HARD'}, 'ACTIVE'), ('rebuild', {'imageRef': ''}, 'ACTIVE'),
                ('os-start', None, 'SHUTOFF')):
            with self.subTest(name):
                made = self.create(self.root, host='host-b')
                self.attach(made, self.other, attach_mode='ro')
                if name == 'os-start':
                    self.act(made, 'os-stop')
                host, calls = self.hosts['host-b'], []
                acts = host.spawn, host.start, host.reboot
                host.spawn = host.start = host.reboot = calls.append
                new = self.cloud.agents['host-b'].reporter
                kept, new._version = new._version, '1.0'
                new.report()
                self.cloud.settle()
                self.act(made, name, body)
                self.assertEqual([], calls)
                self.assert_at_rest(made, status)
                host.spawn, host.start, host.reboot = acts
                new._version = kept
                new.report()
                self.cloud.settle()
                self.assert_can_be_deleted(made)
