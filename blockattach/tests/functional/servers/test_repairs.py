"""Second actions on servers that a failed action has left in any state.

An action runs with a fault at each of its requests, and a second one runs on the remaining server.
An accepted second action succeeds, because only Block Storage and the hosts may refuse it.
"""
import functools

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.acts import connections
from blockattach.compute.acts import work
from blockattach.platform import context
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import http
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_interruptions

GATE = 29
"""The gate runs one of this many faults of each operation, each with one second operation."""
_OFF_STATES = ('SHUTOFF', 'SHELVED')


class Faults(test_interruptions.InterruptionTestCase):
    """Faults that `Cutting` injects before a request."""

    def setUp(self):
        super().setUp()
        self.new = self.volume(multiattach=True)
        self.killed = {}
        self.failed = False

    def refused_once(self):
        raise cloud.Failure

    def refused_from_there_on(self):
        self.cloud.cutting.at = len(self.cloud.cutting.asked) - 0.5
        raise cloud.Failure

    def agents_die(self):
        for name in list(self.cloud.agents):
            self.kill(name)
        self.cloud.clock.advance(120)

    def programming_error(self):
        self.failed = True
        raise KeyError('target_portal')

    def kill(self, name):
        self.killed[name] = self.cloud.agents.pop(name)
        self.killed[name].server.stop()

    def revive(self):
        for name, agent in self.killed.items():
            agent.server.start()
            self.cloud.agents[name] = agent
        self.killed = {}
        for _ in range(2):
            self.cloud.later()

    FAULTS = ('refused_once', 'refused_from_there_on', 'agents_die', 'programming_error')


class Acts(Faults):
    """Operations by the way they begin: on a prepared server, or on any server."""

    def stopped(self):
        made = self.boot()
        self.act(made, 'os-stop')
        return made

    def begin(self, method, path, body=None):
        """Request an operation, whatever the response; return the status."""
        status, answer = self.ask(method, path, body, version=cloud.MODES)
        if not self.failed:
            self.assertLess(status, 500, answer)
        return status

    def action(self, made, name, body=None):
        return self.begin('POST', f'/servers/{made}/action', {name: body})

    def build(self, _made):
        return self.begin('POST', '/servers', {'server': {
            'name': 'web', 'imageRef': '', 'flavorRef': '1', 'networks': 'none',
            'block_device_mapping_v2': [{**test_interruptions.ROOT, 'uuid': self.shared}]}})

    def attach_other(self, made):
        return self.begin('POST', f'/servers/{made}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': self.other}})

    def detach_other(self, made):
        return self.begin('DELETE', f'/servers/{made}/os-volume_attachments/{self.other}')

    def swap_shared(self, made):
        return self.begin('PUT', f'/servers/{made}/os-volume_attachments/{self.shared}', {
            'volumeAttachment': {'volumeId': self.new}})

    def delete(self, made):
        return self.begin('DELETE', f'/servers/{made}')

    def evacuate_it(self, made):
        host = self.server(made)['OS-EXT-SRV-ATTR:host']
        if host in self.cloud.agents:
            self.kill(host)
            self.cloud.later()
        return self.action(made, 'evacuate', {'host': None})

    def acting(self, name, body=None):
        return lambda made: self.action(made, name, body)

    def reason(self, made):
        actions = self.asked(200, 'GET', f'/servers/{made}/os-instance-actions')[
            'instanceActions']
        return self.asked(200, 'GET', f'/servers/{made}/os-instance-actions/'
                          f'{actions[0]["request_id"]}')['instanceAction']['events'][0]['details']

    def table(self):
        """Return the verb of an operation (with its variant), a server for it, and its request."""
        return {
            'build': (lambda: None, self.build),
            'start': (self.stopped, self.acting('os-start')),
            'stop': (self.attached, self.acting('os-stop')),
            'reboot': (self.attached, self.acting('reboot', {'type': 'HARD'})),
            'reboot soft': (self.attached, self.acting('reboot', {'type': 'SOFT'})),
            'attach': (self.boot, self.attach_other),
            'detach': (self.attached, self.detach_other),
            'swap': (self.boot, self.swap_shared),
            'shelve': (self.attached, self.acting('shelve')),
            'shelve_offload': (lambda: self.shelved(False), self.acting('shelveOffload')),
            'unshelve': (self.shelved, self.acting('unshelve')),
            'unshelve here': (lambda: self.shelved(False), self.acting('unshelve')),
            'rebuild': (self.attached, self.acting('rebuild', {'imageRef': ''})),
            'rebuild stopped': (self.stopped, self.acting('rebuild', {'imageRef': ''})),
            'resize': (self.attached, self.acting('resize', {'flavorRef': '2'})),
            'confirm_resize': (self.resized, self.acting('confirmResize')),
            'revert_resize': (self.resized, self.acting('revertResize')),
            'live_migrate': (self.attached,
                             self.acting('os-migrateLive', test_interruptions.MIGRATE)),
            'evacuate': (self.attached, self.evacuate_it),
            'evacuate stopped': (self.stopped, self.evacuate_it),
            'delete': (self.attached, self.delete)}


class RepairsTest(Acts):

    def test_each_verb_has_case(self):
        self.assertEqual(set(lifecycle.VERBS), {name.split()[0] for name in self.table()})

    def play(self, first):
        """Run an operation with each fault at each place, followed by each second operation."""
        whole = self.left_by(first, None, None)
        self.clean_up()
        cases = [(fault, place) for place in range(len(whole)) for fault in self.FAULTS]
        seconds = list(self.table())
        played = set()
        number = list(self.table()).index(first)
        part = exhaustive.Part(number % (len(cases) or 1), GATE)
        for fault, place in part.chosen(cases):
            part = exhaustive.Part((number + place) % len(seconds), len(seconds))
            for second in part.chosen(seconds):
                with self.subTest(f'{fault} ahead of {place}: {whole[place]}', second=second):
                    self.left_by(first, fault, place)
                    left = self.looks()
                    if (left, second) not in played:
                        played.add((left, second))
                        self.go_on(first, fault, second)
                    self.clean_up()

    def left_by(self, first, fault, place):
        """Run an operation, and return the requests that it sent."""
        prepare, begin = self.table()[first]
        made = prepare()
        self.cloud.cutting.begin(None if place is None else place - 0.5,
                                 fault and getattr(self, fault))
        begin(made)
        self.cloud.settle()
        for _ in range(2):
            self.cloud.later()
        asked = self.cloud.cutting.asked
        self.cloud.cutting.begin()
        self.failed = False
        self.revive()
        return asked

    def ids(self):
        return sorted(one['id'] for one in self.asked(200, 'GET', '/servers')['servers'])

    def held(self, made):
        """Return the volumes of a server with the host, mode and status of their attachments."""
        return {volume: [one[1:] for one in self.attachments(volume) if one[0] == made]
                for volume in (self.shared, self.other, self.new)}

    def where(self, made):
        return {name: host.servers()[made] for name, host in self.hosts.items()
                if made in host.servers()}

    def looks(self):
        """Return everything that distinguishes leftovers of different operations."""
        found = []
        for made in self.ids():
            shown = self.server(made)
            host = shown['OS-EXT-SRV-ATTR:host']
            found.append((shown['status'], host is None, tuple(
                (name == host, power) for name, power in self.where(made).items()), tuple(
                tuple((one[0] and one[0] == host, *one[1:]) for one in its)
                for its in self.held(made).values()), tuple(sorted(
                    (one.state, one.next_attachment_id is None, one.attachment_id is None)
                    for one in self.cloud.store.devices([made])[made]))))
        return tuple(found)

    def go_on(self, first, fault, second):
        """Check that nothing is in progress, and that an accepted second operation succeeds."""
        for made in self.ids():
            self.assert_at_rest(made, fault)
            shown = self.server(made)
            status = self.table()[second][1](made)
            self.cloud.settle()
            self.revive()
            if second == 'delete':
                self.assertEqual((204, 404), (status, self.ask('GET', f'/servers/{made}')[0]))
                continue
            self.assert_at_rest(made, fault)
            if second == 'build' or status >= 400:
                continue
            if shown['OS-EXT-SRV-ATTR:host'] is not None or shown['status'] != 'ERROR':
                self.assert_done(made, second, fault)

    def assert_at_rest(self, made, fault=None):
        shown = self.server(made)
        self.assertIsNone(shown['OS-EXT-STS:task_state'], shown)
        host, held = shown['OS-EXT-SRV-ATTR:host'], self.held(made)
        if fault == 'refused_from_there_on':
            # Attachments whose deletion block storage rejects remain.
            return
        for its in held.values():
            self.assertLess(len(its), 2, (shown, held))
            for one in its:
                self.assertIn(one[0], (None, host), (shown, held))
                if fault != 'programming_error' or shown['status'] != 'ERROR':
                    self.assertIn(one[2], ('attached', 'reserved'), (shown, held))

    def assert_done(self, made, second, fault):
        shown, held = self.server(made), self.held(made)
        actions = self.asked(200, 'GET', f'/servers/{made}/os-instance-actions')[
            'instanceActions']
        self.assertIsNone(actions[0]['message'], (shown, actions[0], self.reason(made)))
        volumes, host = self.volumes(made), shown['OS-EXT-SRV-ATTR:host']
        self.assertNotEqual('ERROR', shown['status'])
        if fault == 'refused_from_there_on' and lifecycle.VERBS[second.split()[0]].shares:
            # Such an act releases second attachments of its own volume only.
            held = {volume: its if volume == self.other else
                    [one for one in its if one[2] == 'attached'] or its[:1]
                    for volume, its in held.items()}
        self.assertEqual([], [its for its in held.values() if len(its) > 1])
        self.assertEqual([host] if host else [], list(self.where(made)), shown)
        self.assertEqual(set(volumes), {volume for volume, its in held.items() if its})
        if host is not None:
            self.assert_disks(volumes, held, shown['status'], self.hosts[host].disks(made))
        if shown['status'] == 'ACTIVE':
            self.assertEqual({host: 'running'}, self.where(made))
            self.assertEqual({volume: [(host, mode, 'attached')]
                              for volume, mode in volumes.items()},
                             {volume: its for volume, its in held.items() if its})
        elif shown['status'] in _OFF_STATES:
            self.assertEqual({host: 'stopped'}, self.where(made))
        if second.startswith('reboot'):
            self.assertEqual('ACTIVE', shown['status'])

    def assert_disks(self, volumes, held, status, disks):
        """Check the disks of a guest; one that is off gets a reserved volume when it starts."""
        if status in _OFF_STATES:
            volumes = {volume: mode for volume, mode in volumes.items()
                       if volume in disks or [one[2] for one in held[volume]] != ['reserved']}
        self.assertEqual(volumes, disks)

    def clean_up(self):
        for made in self.ids():
            self.ask('DELETE', f'/servers/{made}')
        self.cloud.settle()
        for _ in range(2):
            self.cloud.later()
        self.assertEqual([], self.ids())
        self.assertEqual([], [one for volume in (self.shared, self.other, self.new)
                              for one in self.attachments(volume)])
        self.assertEqual([{}, {}], [host.servers() for host in self.hosts.values()])


class RepairedTest(Acts):
    """Servers whose guest was lost in an operation, and their repair by the owner."""

    def after_evacuation(self, host):
        """Fail the destination during an evacuation, and start the failed host again."""
        made = self.create({**test_interruptions.ROOT, 'uuid': self.shared}, host=host)
        self.kill(host)
        self.cloud.later()
        self.cloud.cutting.begin(1.5, self.agents_die)
        self.assertEqual(200, self.action(made, 'evacuate', {'host': None}))
        self.cloud.settle()
        self.cloud.cutting.begin()
        self.revive()
        return made

    def after_rebuild(self):
        made = self.boot()
        self.hosts[self.server(made)['OS-EXT-SRV-ATTR:host']].failing.append('spawn')
        self.act(made, 'rebuild', {'imageRef': ''})
        return made

    def assert_lost(self, made):
        """Check that nothing runs, nothing is connected, and the reason is shown."""
        shown = self.server(made)
        self.assertEqual('ERROR', shown['status'])
        self.assertIn('message', shown['fault'])
        self.assertEqual([(made, None, 'ro', 'reserved')], self.attachments(self.shared))

    def assert_runs(self, made, host):
        self.assertEqual('ACTIVE', self.server(made)['status'])
        self.assertEqual({self.shared: 'ro'}, self.hosts[host].disks(made))
        self.assertEqual([(made, host, 'ro', 'attached')], self.attachments(self.shared))
        self.assertEqual('in-use', self.status_of_volume(self.shared))

    def test_hard_reboot_after_failed_evacuation_runs_with_volumes(self):
        made = self.after_evacuation('host-a')
        self.assert_lost(made)
        self.act(made, 'reboot', {'type': 'HARD'})
        self.assert_runs(made, 'host-a')

    def test_start_after_failed_evacuation_runs_with_volumes(self):
        made = self.after_evacuation('host-b')
        self.act(made, 'os-stop')
        self.assertEqual('SHUTOFF', self.server(made)['status'])
        self.act(made, 'os-start')
        self.assert_runs(made, 'host-b')

    def test_hard_reboot_after_failed_rebuild_runs_with_volumes(self):
        made = self.after_rebuild()
        self.assert_lost(made)
        self.act(made, 'reboot', {'type': 'HARD'})
        self.assert_runs(made, self.server(made)['OS-EXT-SRV-ATTR:host'])

    def test_start_after_failed_rebuild_runs_with_volumes(self):
        made = self.after_rebuild()
        self.act(made, 'os-stop')
        self.act(made, 'os-start')
        self.assert_runs(made, self.server(made)['OS-EXT-SRV-ATTR:host'])

    def test_hard_reboot_refused_by_host_leaves_server_as_it_was(self):
        made = self.after_rebuild()
        self.hosts[self.server(made)['OS-EXT-SRV-ATTR:host']].failing.append('spawn')
        self.act(made, 'reboot', {'type': 'HARD'})
        self.assert_lost(made)
        self.assertIn('spawn fails as planned', self.server(made)['fault']['message'])

    def test_hard_reboot_refused_by_storage_leaves_server_running(self):
        made = self.attached()
        host = self.server(made)['OS-EXT-SRV-ATTR:host']
        before = self.attachments(self.shared)
        storage = http.Persona(self.cloud.storage, 'admin,member,reader', service_token=True)
        for one in storage.get(f'/attachments?volume_id={self.other}').body['attachments']:
            self.assertEqual(200, storage.delete(f'/attachments/{one["id"]}').status)
        self.cloud.storage.as_admin.post(f'/volumes/{self.other}/action', {
            'os-reset_status': {'status': 'error'}})
        self.act(made, 'reboot', {'type': 'HARD'})
        self.assertEqual(('ACTIVE', 'running', before), (
            self.server(made)['status'], self.hosts[host].servers()[made],
            self.attachments(self.shared)))
        self.assertIn('error', self.reason(made))

    def test_action_with_programming_error_ends_with_fault(self):
        for name in ('spawn', 'destroy'):
            with self.subTest(name):
                made = self.boot()
                host = self.hosts[self.server(made)['OS-EXT-SRV-ATTR:host']]
                method = getattr(host, name)
                setattr(host, name, lambda *_arguments: {}['target_portal'])
                self.act(made, 'reboot', {'type': 'HARD'})
                self.assertEqual('ERROR' if name == 'spawn' else 'ACTIVE',
                                 self.server(made)['status'])
                self.assertIn('KeyError', self.reason(made))
                setattr(host, name, method)
                self.act(made, 'reboot', {'type': 'HARD'})
                self.assertEqual('ACTIVE', self.server(made)['status'])
                self.asked(204, 'DELETE', f'/servers/{made}')
                self.cloud.settle()

    def test_process_without_lease_releases_no_attachment(self):
        made, rows = self.boot(), self.cloud.store
        caller = context.RequestContext(project_id=http.PROJECT, user_id=http.USER)
        act = rows.begin(made, records.Act(
            '', '', 'rebuild', {}, {'user_id': http.USER, **caller.to_dict()},
            lifecycle.VERBS['rebuild'].finishes), 'one', 60)
        first = work.Work(self.cloud.conductor._tools, act, caller)
        self.cloud.clock.advance(120)
        [taken] = rows.take_over('other', 60)
        second = work.Work(self.cloud.conductor._tools, taken, caller)
        connections.hold_next(second)
        held = self.attachments(self.shared)
        for release in (connections.release_second, connections.release_unused):
            with self.assertRaises(errors.ActTakenOver):
                release(first)
        self.assertEqual(held, self.attachments(self.shared))
        connections.release_second(second)
        self.assertEqual(len(held) - 1, len(self.attachments(self.shared)))

    def test_delete_with_programming_error_repeatable(self):
        made = self.boot()
        host = self.hosts[self.server(made)['OS-EXT-SRV-ATTR:host']]
        destroy, host.destroy = host.destroy, lambda _server_id: {}['target_portal']
        self.delete(made)
        self.cloud.settle()
        self.assertIn('KeyError', self.server(made)['fault']['message'])
        host.destroy = destroy
        self.delete(made)
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual([], self.attachments(self.shared))


def _play_each():
    for first in Acts().table():
        name = f'test_{first.replace(" ", "_")}_with_fault_leaves_server_usable'
        setattr(RepairsTest, name, functools.partialmethod(RepairsTest.play, first))


_play_each()
