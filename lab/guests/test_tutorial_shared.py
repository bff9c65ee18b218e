"""Tutorial on a shared volume with OCFS2, executed as written."""
from lab.guests import block_storage
from lab.guests import tutorials

BOTH, FIRST, SECOND = tutorials.BOTH, tutorials.FIRST, tutorials.SECOND
CREATE, FORMAT, LOOK, WRITE = (f'{FIRST}, {what}' for what in (
    'the volume', 'the file system', 'the tree', 'a file'))
CONNECT, CLUSTER, MOUNT, END = (f'{BOTH}, {what}' for what in (
    'the device', 'the cluster', 'the mount', 'the end'))
CHANGE, READ, DELETE = f'{SECOND}, the same file', f'{FIRST}, once more', f'{FIRST}, the end'


class SharedVolumeTest(tutorials.TutorialTestCase):

    page = 'doc/source/user/tutorial_shared.rst'
    names = ('DISK', 'OS_AUTH_TYPE', 'OS_ENDPOINT', 'OS_USERNAME', 'OS_PASSWORD')

    def setUp(self):
        super().setUp()
        first, second = self.hosts
        self.real.update({
            '=ann': f'={block_storage.USER}', '=PASSWORD': f'={self.storage.service[1]}',
            '192.0.2.11': first.guest.address, '192.0.2.12': second.guest.address})

    def test_as_it_is_written(self):
        first, second = self.hosts
        self.assertEqual([BOTH, CREATE, CONNECT, LOOK, CLUSTER, FORMAT, MOUNT, WRITE, CHANGE, READ,
                          END, DELETE], [caption for caption, _ in self.blocks])
        self.play(first, BOTH, CREATE, CONNECT)
        self.play(second, BOTH, CONNECT)
        tree = self.play(first, LOOK)
        self.assertEqual(2, tree.count('rw enforced by target, attached'), tree)
        self.play(first, CLUSTER, FORMAT, MOUNT, WRITE)
        self.play(second, CLUSTER, MOUNT)
        # Both hosts have mounted the file system and see each other's writes at once.
        self.assertEqual(['from host-a'], self.play(second, CHANGE).splitlines())
        self.assertEqual(['from host-a', 'from host-b'], self.play(first, READ).splitlines())
        self.report('a shared volume with OCFS2', tree)
        for host in self.hosts:
            self.play(host, END)
        self.assertEqual([], self.storage.api.ask('GET', '/attachments')['attachments'])
        self.play(first, DELETE)
