"""Change of the configured flavors while servers use the previous ones."""
from blockattach.platform import errors
from blockattach.tests.functional.servers import cloud

OTHERS = ['new:m2.new:4:2048:1', '1:m1.tiny:8:4096:0']
"""Flavors with one added in front, one resized, and one removed."""


class FlavorsTest(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.root = self.volume()

    def restart(self, *flavors):
        self.cloud.restart_api(flavors=list(flavors))

    def flavors(self):
        return {one['id']: one['name'] for one in self.asked(200, 'GET', '/flavors')['flavors']}

    def shown(self, server_id):
        """Return the name and the sizes of a server's flavor."""
        found = self.server(server_id)['flavor']
        return found['original_name'], found['vcpus'], found['ram'], found['disk']

    def given(self, server_id):
        """Return the vCPUs and the memory in MiB of the guest on its host."""
        host = self.hosts[self.server(server_id)['OS-EXT-SRV-ATTR:host']]
        guest = host.guest(server_id)
        return guest.vcpus, guest.memory_mb

    def test_server_keeps_flavor_after_flavors_change(self):
        tiny, medium = self.create(self.root), self.create(flavorRef='3')
        self.restart(*OTHERS)
        self.assertEqual({'new': 'm2.new', '1': 'm1.tiny'}, self.flavors())
        for name, body in (('reboot', {'type': 'HARD'}), ('rebuild', {'imageRef': ''}),
                           ('migrate', None), ('revertResize', None)):
            self.act(tiny, name, body)
            self.assertEqual(('m1.tiny', 1, 256, 0), self.shown(tiny), name)
            self.assertEqual((1, 256), self.given(tiny), name)
        self.assertEqual(('m1.medium', 2, 1024, 0), self.shown(medium))
        old = self.asked(200, 'GET', f'/servers/{medium}', version='compute 2.1')['server']
        self.assertEqual('3', old['flavor']['id'])

    def test_resize_and_revert_across_flavor_change(self):
        made = self.create(self.root, flavorRef='3')
        self.restart(*OTHERS)
        self.act(made, 'resize', {'flavorRef': 'new'}, settle=False)
        self.restart('1:m1.tiny:1:256:0')
        self.cloud.settle()
        self.assertEqual(('m2.new', 4, 2048, 1), self.shown(made))
        self.assertEqual((4, 2048), self.given(made))
        self.act(made, 'revertResize')
        self.assertEqual(('m1.medium', 2, 1024, 0), self.shown(made))
        self.assertEqual((2, 1024), self.given(made))
        self.asked(400, 'POST', f'/servers/{made}/action', {'resize': {'flavorRef': 'new'}})

    def test_flavors_without_ids_are_numbered(self):
        self.restart('a:1:256:0', 'own:b:1:512:0', 'c:2:512:1')
        self.assertEqual({'1': 'a', 'own': 'b', '3': 'c'}, self.flavors())

    def test_invalid_flavors_stop_start(self):
        for words, flavors in (
                ('the format is id:name:vcpus:MiB:GiB', ['a:1:256']),
                ('the format is id:name:vcpus:MiB:GiB', ['a:b:c:1:256:0']),
                ('the format is id:name:vcpus:MiB:GiB', ['a/b:c:1:256:0']),
                ('with id 1: flavor a with id 1', ['1:a:1:256:0', '1:b:1:256:0']),
                ('with id 2: flavor a with id 2', ['2:a:1:256:0', 'b:1:256:0']),
                ('with id 2: flavor a with id 1', ['1:a:1:256:0', '2:a:2:256:0'])):
            with self.subTest(flavors), self.assertRaises(errors.ConfigurationError) as caught:
                self.restart(*flavors)
            self.assertIn(words, str(caught.exception))
            self.assertIn('[compute] flavors', str(caught.exception))
