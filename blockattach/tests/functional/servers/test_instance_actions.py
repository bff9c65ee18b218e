"""Instance actions of a server and the reasons of failed ones."""
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional.servers import cloud

OTHER_PROJECT = '0' * 31 + '9'
MEMBER = 'member,reader'
MIGRATE = {'host': None, 'block_migration': 'auto'}


class ActionsTestCase(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.made = self.create()

    def listed(self, query='', **more):
        return self.asked(200, 'GET', f'/servers/{self.made}/os-instance-actions{query}', **more)

    def actions(self, query='', **more):
        return self.listed(query, **more)['instanceActions']

    def last(self, **more):
        """Return the last action with its events."""
        request_id = self.actions()[0]['request_id']
        return self.asked(200, 'GET', f'/servers/{self.made}/os-instance-actions/{request_id}',
                          **more)['instanceAction']

    def assert_failed(self, action, reason):
        found = self.last()
        self.assertEqual((action, 'Error'), (found['action'], found['message']))
        [event] = found['events']
        self.assertEqual(('Error', reason), (event['result'], event['details']))


class DoneTest(ActionsTestCase):

    def test_instance_actions_list_each_action(self):
        old, new = self.volume(), self.volume()
        path = f'/servers/{self.made}/os-volume_attachments'
        self.attach(self.made, old)
        self.asked(202, 'PUT', f'{path}/{old}', {'volumeAttachment': {'volumeId': new}})
        self.cloud.settle()
        self.detach(self.made, new)
        names = []
        for name, body, action, status in (
                ('os-stop', None, 'stop', 202), ('os-start', None, 'start', 202),
                ('reboot', {'type': 'HARD'}, 'reboot', 202),
                ('rebuild', {'imageRef': 'image'}, 'rebuild', 202),
                ('os-migrateLive', MIGRATE, 'live-migration', 202),
                ('migrate', None, 'migrate', 202), ('revertResize', None, 'revertResize', 202),
                ('resize', {'flavorRef': '2'}, 'resize', 202),
                ('confirmResize', None, 'confirmResize', 204), ('shelve', None, 'shelve', 202),
                ('shelveOffload', None, 'shelveOffload', 202),
                ('unshelve', None, 'unshelve', 202)):
            self.act(self.made, name, body, status)
            names.append(action)
        found = self.actions()
        self.assertEqual(['create', 'attach_volume', 'swap_volume', 'detach_volume', *names],
                         [one['action'] for one in reversed(found)])
        self.assertEqual({(None, self.made, make.USER, http.PROJECT)}, {
            (one['message'], one['instance_uuid'], one['user_id'], one['project_id'])
            for one in found})
        self.assertEqual(len(found), len({one['request_id'] for one in found}))

    def test_evacuate_action_names_new_host(self):
        self.cloud.agents.pop('host-a')
        self.cloud.later()
        self.act(self.made, 'evacuate', {'host': None}, 200)
        found = self.last()
        self.assertEqual(('evacuate', 'host-b'), (found['action'], found['events'][0]['host']))

    def test_instance_action_times_follow_progress(self):
        self.cloud.clock.advance(60)
        began = self.cloud.clock.utcnow().isoformat(timespec='microseconds')
        self.act(self.made, 'os-stop', settle=False)
        found = self.last()
        self.assertEqual((began, began, None), tuple(
            found[key] for key in ('start_time', 'updated_at', 'message')))
        [event] = found['events']
        self.assertEqual((began, None, None), tuple(
            event[key] for key in ('start_time', 'finish_time', 'result')))
        self.cloud.clock.advance(5)
        self.cloud.settle()
        ended = self.cloud.clock.utcnow().isoformat(timespec='microseconds')
        found = self.last()
        self.assertEqual((began, ended), (found['start_time'], found['updated_at']))
        self.assertEqual([{
            'event': 'compute_stop', 'start_time': began, 'finish_time': ended,
            'result': 'Success', 'traceback': None, 'details': None, 'host': 'host-a',
            'hostId': self.server(self.made)['hostId']}], found['events'])

    def test_servers_of_one_request_have_separate_actions(self):
        self.create(name='many', max_count=2)
        ids = [one['id'] for one in self.asked(200, 'GET', '/servers?name=many-')['servers']]
        requests = []
        for self.made in ids:
            [found] = self.actions()
            self.assertEqual(('create', self.made), (found['action'], found['instance_uuid']))
            requests.append(found['request_id'])
        self.assertEqual(requests[0], requests[1])


class FailedTest(ActionsTestCase):

    def test_detach_refused_by_guest_fails_action(self):
        one = self.volume()
        self.attach(self.made, one)
        self.hosts['host-a'].busy.add(one)
        self.detach(self.made, one)
        event, payload = self.cloud.notified.events[-1]
        self.assertEqual('instance.volume_detach.error', event)
        self.assertTrue(payload['fault'])
        self.assert_failed('detach_volume', payload['fault'])

    def test_attach_refused_by_backend_fails_action(self):
        one = self.volume()
        self.cloud.storage.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.attach(self.made, one, 202, version='compute 2.101')
        self.assert_failed('attach_volume', self.cloud.notified.events[-1][1]['fault'])

    def test_attach_refused_by_host_fails_action(self):
        self.hosts['host-a'].failing.append('plug')
        self.attach(self.made, self.volume())
        self.assert_failed('attach_volume', 'plug fails as planned')

    def test_failed_resize_fails_action(self):
        self.hosts['host-b'].failing.append('spawn')
        self.act(self.made, 'resize', {'flavorRef': '2'})
        self.assert_failed('resize', 'spawn fails as planned')
        self.assertEqual('host-a', self.last()['events'][0]['host'])

    def test_attach_undone_after_crash_fails_action(self):
        one = self.volume()
        self.cloud.cutting.begin(1)
        with self.assertRaises(cloud.Death):
            self.attach(self.made, one)
        self.assertIsNone(self.last()['events'][0]['result'])
        self.cloud.later()
        self.assert_failed('attach_volume', 'the compute API was interrupted during the action')

    def test_detach_finished_after_crash_succeeds(self):
        one = self.volume()
        self.attach(self.made, one)
        self.cloud.cutting.begin(0)
        with self.assertRaises(cloud.Death):
            self.detach(self.made, one)
        self.cloud.later()
        self.assertEqual((None, 'Success'), (
            self.last()['message'], self.last()['events'][0]['result']))

    def test_rejected_request_leaves_no_action(self):
        one = self.volume()
        reserved = self.cloud.storage.as_member.post('/attachments', {'attachment': {
            'volume_uuid': one, 'instance_uuid': cloud.new_id()}})
        self.assertEqual(200, reserved.status)
        self.attach(self.made, one, 400)
        self.act(self.made, 'os-start', status=409)
        self.assertEqual(['create'], [found['action'] for found in self.actions()])


class ShownTest(ActionsTestCase):

    def keys(self, version, roles='admin,member,reader'):
        """Return which optional keys an action and its events have."""
        found = self.last(version=f'compute {version}', roles=roles)
        events = found.pop('events', [{}])
        return 'updated_at' in found, set(events[0]) - {
            'event', 'start_time', 'finish_time', 'result'} if events[0] else None

    def test_instance_action_keys_by_microversion(self):
        for version, seen in (
                ('2.1', (False, {'traceback'})), ('2.57', (False, {'traceback'})),
                ('2.58', (True, {'traceback'})), ('2.62', (True, {'traceback', 'host', 'hostId'})),
                ('2.84', (True, {'traceback', 'host', 'hostId', 'details'}))):
            self.assertEqual(seen, self.keys(version), version)

    def test_instance_action_keys_of_member_by_microversion(self):
        for version, seen in (('2.50', (False, None)), ('2.51', (False, set())),
                              ('2.61', (True, set())), ('2.104', (True, {'hostId'}))):
            self.assertEqual(seen, self.keys(version, MEMBER), version)

    def test_instance_actions_of_other_project_not_found(self):
        request_id = self.actions()[0]['request_id']
        path = f'/servers/{self.made}/os-instance-actions'
        for where in (path, f'{path}/{request_id}'):
            self.asked(404, 'GET', where, roles=MEMBER, project=OTHER_PROJECT)
            self.asked(403, 'GET', where, roles='none')
        other = self.create()
        self.asked(404, 'GET', f'/servers/{other}/os-instance-actions/{request_id}')
        self.asked(404, 'GET', f'{path}/req-{cloud.new_id()}')

    def test_instance_actions_deleted_with_server(self):
        self.asked(204, 'DELETE', f'/servers/{self.made}')
        self.assertEqual('delete', self.actions()[0]['action'])
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{self.made}/os-instance-actions')


class ChosenTest(ActionsTestCase):

    def setUp(self):
        super().setUp()
        self.times = [self.cloud.clock.utcnow()]
        for action in ('os-stop', 'os-start', 'os-stop'):
            self.cloud.clock.advance(60)
            self.times.append(self.cloud.clock.utcnow())
            self.act(self.made, action)

    def names(self, query, **more):
        return [one['action'] for one in self.actions(query, **more)]

    def test_instance_actions_limit_returns_next_link(self):
        first = self.listed('?limit=3')
        self.assertEqual(['stop', 'start', 'stop'], [
            one['action'] for one in first['instanceActions']])
        [link] = first['links']
        self.assertEqual('next', link['rel'])
        second = self.listed(link['href'].partition('/os-instance-actions')[2])
        self.assertEqual(['create'], [one['action'] for one in second['instanceActions']])
        self.assertNotIn('links', second)

    def test_instance_actions_filtered_by_change_time(self):
        second = self.times[1].isoformat()
        zone = f'{self.times[2].isoformat()}%2B00:00'
        for query, names in (
                (f'?changes-since={second}Z', ['stop', 'start', 'stop']),
                (f'?changes-before={second}', ['stop', 'create']),
                (f'?changes-since={second}&changes-before={zone}', ['start', 'stop'])):
            self.assertEqual(names, self.names(query), query)

    def test_instance_actions_limit_ignored_before_2_58(self):
        self.assertEqual(4, len(self.names('?limit=1&zz=1', version='compute 2.57')))
        self.assertEqual(1, len(self.names('?limit=1', version='compute 2.58')))

    def test_instance_actions_with_invalid_query_rejected(self):
        early, late = (one.isoformat() for one in self.times[:2])
        for version, query in (
                ('2.104', 'limit=x'), ('2.104', f'marker=req-{cloud.new_id()}'),
                ('2.104', 'changes-since=yesterday'), ('2.104', 'zz=1'),
                ('2.104', f'changes-since={late}&changes-before={early}'),
                ('2.65', f'changes-before={late}')):
            with self.subTest(query):
                self.asked(400, 'GET', f'/servers/{self.made}/os-instance-actions?{query}',
                           version=f'compute {version}')
