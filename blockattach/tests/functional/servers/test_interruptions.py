"""Death of the compute API before an action, and after each of its requests.

Another process takes the action over, and nothing is left over in Block Storage or on hosts.
"""
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import cloud

ROOT = {'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0,
        'attach_mode': 'ro'}
NOWHERE = -1
"""Place before the first request."""
MIGRATE = {'host': None, 'block_migration': 'auto'}


class InterruptionTestCase(cloud.ComputeTestCase):
    """Test case that interrupts an action at each place.

    ``PART`` limits the places where another class plays the others. None means all.
    """

    PART = None

    def setUp(self):
        super().setUp()
        self.shared = self.volume(multiattach=True)
        self.other = self.volume(multiattach=True)

    def boot(self, settle=True):
        return self.create({**ROOT, 'uuid': self.shared}, settle=settle)

    def attached(self):
        made = self.boot()
        self.attach(made, self.other)
        return made

    def shelved(self, offloaded=True):
        made = self.boot()
        self.act(made, 'shelve')
        if offloaded:
            self.act(made, 'shelveOffload')
        return made

    def resized(self):
        made = self.boot()
        self.act(made, 'resize', {'flavorRef': '2'})
        return made

    def act_on(self, action, body=None, status=202):
        return lambda made: self.act(made, action, body, status, settle=False)

    def evacuate(self, made):
        """Stop the agent of the server's host and request an evacuation."""
        self.host = self.server(made)['OS-EXT-SRV-ATTR:host']
        self.dead = self.cloud.agents.pop(self.host)
        self.cloud.later()
        self.act(made, 'evacuate', {'host': None}, 200, settle=False)

    def cut_everywhere(self, prepare, begin):
        """Run an action without interruption, then once for each place to interrupt it at."""
        whole = self.cut_off(prepare, begin, None)
        self.assertNotEqual([], whole)
        places = list(enumerate(['nothing', *whole], NOWHERE))
        for place, behind in places if self.PART is None else self.PART.chosen(places):
            with self.subTest(behind=f'{place}: {behind}'):
                self.cut_off(prepare, begin, place)

    def cut_off(self, prepare, begin, place):
        """Run an action, interrupt it at a place, and check the outcome.

        :returns: the requests that were sent
        """
        made = prepare()
        self.cloud.cutting.begin(None if place == NOWHERE else place)
        try:
            made = begin(made) or made
            if place == NOWHERE:
                self.cloud.work.forget()
            self.cloud.settle()
        except cloud.Death:
            pass
        self.assertIsNone(self.cloud.cutting.at)
        asked = self.cloud.cutting.asked
        self.cloud.cutting.begin()
        for _ in range(2):
            self.cloud.later()
        for made in [one['id'] for one in self.asked(200, 'GET', '/servers')['servers']]:
            self.assert_consistent(made)
            self.clean(made)
        self.assertEqual([], self.attachments(self.shared) + self.attachments(self.other))
        return asked

    def assert_consistent(self, made):
        """Check that the rows, Block Storage and the hosts agree on a server."""
        status, answer = self.ask('GET', f'/servers/{made}')
        held = {volume: [one for one in self.attachments(volume) if one[0] == made]
                for volume in (self.shared, self.other)}
        where = [name for name in self.cloud.agents if made in self.hosts[name].servers()]
        if status == 404 or answer['server']['status'] == 'ERROR':
            self.assertEqual(([], []), (held[self.shared], held[self.other]))
            self.assertEqual([], where)
            return
        server = answer['server']
        self.assertIsNone(server['OS-EXT-STS:task_state'])
        host, volumes = server['OS-EXT-SRV-ATTR:host'], self.volumes(made)
        if getattr(self, 'dead', None) is not None and host == self.host:
            # A refused evacuation leaves the guest on the host whose agent is down.
            where += [host] if made in self.hosts[host].servers() else []
        self.assertEqual([host] if host else [], where)
        for volume, found in held.items():
            self.assertEqual([(made, host, volumes[volume], 'attached')]
                             if volume in volumes else [], found)
        if host:
            self.assertEqual(volumes, self.hosts[host].disks(made))
            runs = self.hosts[host].servers()[made] == 'running'
            self.assertEqual(runs, server['status'] in ('ACTIVE', 'VERIFY_RESIZE'), server)

    def clean(self, made):
        if getattr(self, 'dead', None) is not None:
            dead, self.dead = self.dead, None
            dead.reporter.report()
            self.cloud.settle()
            self.cloud.agents[self.host] = dead
            self.assert_consistent(made)
        self.ask('DELETE', f'/servers/{made}')
        self.cloud.settle()
        self.assert_consistent(made)


class InterruptionTest(InterruptionTestCase):

    PART = exhaustive.Part(0, 5)

    def test_build(self):
        self.cut_everywhere(lambda: None, lambda _none: self.boot(settle=False))

    def test_build_of_several(self):
        self.cut_everywhere(lambda: None, lambda _none: self.create(
            {**ROOT, 'uuid': self.shared}, settle=False, max_count=4))

    def test_attach(self):
        self.cut_everywhere(self.boot, lambda made: self.attach(made, self.other, settle=False))

    def test_detach(self):
        self.cut_everywhere(self.attached,
                            lambda made: self.detach(made, self.other, settle=False))

    def test_delete(self):
        self.cut_everywhere(self.attached, lambda made: self.asked(
            204, 'DELETE', f'/servers/{made}'))

    def test_swap(self):
        self.cut_everywhere(self.boot, lambda made: self.asked(
            202, 'PUT', f'/servers/{made}/os-volume_attachments/{self.shared}', {
                'volumeAttachment': {'volumeId': self.other}}))

    def test_live_migration(self):
        self.cut_everywhere(self.boot, self.act_on('os-migrateLive', MIGRATE))

    def test_resize(self):
        self.cut_everywhere(self.boot, self.act_on('resize', {'flavorRef': '2'}))

    def test_revert_resize(self):
        self.cut_everywhere(self.resized, self.act_on('revertResize'))

    def test_shelve_offload(self):
        self.cut_everywhere(lambda: self.shelved(False), self.act_on('shelveOffload'))

    def test_unshelve(self):
        self.cut_everywhere(self.shelved, self.act_on('unshelve'))

    def test_unshelve_where_it_is(self):
        self.cut_everywhere(lambda: self.shelved(False), self.act_on('unshelve'))

    def test_rebuild(self):
        self.cut_everywhere(self.boot, self.act_on('rebuild', {'imageRef': ''}))

    def test_evacuate(self):
        self.cut_everywhere(self.boot, self.evacuate)


class AccountTest(InterruptionTestCase):
    """Actions that start with the token of a user and are taken over with the account."""

    ACCOUNT = True

    def test_build(self):
        self.cut_everywhere(lambda: None, lambda _none: self.boot(settle=False))

    def test_attach(self):
        self.cut_everywhere(self.boot, lambda made: self.attach(made, self.other, settle=False))

    def test_shelve_offload(self):
        self.cut_everywhere(lambda: self.shelved(False), self.act_on('shelveOffload'))

    def test_evacuate(self):
        self.cut_everywhere(self.boot, self.evacuate)
