"""Tutorial on open-iscsi, executed as written."""
from lab.guests import tutorials

BOTH, FIRST, SECOND = tutorials.BOTH, tutorials.FIRST, tutorials.SECOND
ATTACHED, DETACHING, DETACHED = f'{SECOND}, attached', f'{BOTH}, detaching', f'{FIRST}, detached'


class TutorialTest(tutorials.TutorialTestCase):

    page = 'doc/source/user/tutorial_iscsi.rst'
    names = ('API', 'VOLUME', 'MODE', 'ATTACHMENT', 'PORTAL', 'IQN', 'LUN', 'DISK')

    def test_as_it_is_written(self):
        first, second = self.hosts
        self.assertEqual({BOTH, FIRST, SECOND, ATTACHED, DETACHING, DETACHED},
                         {caption for caption, _ in self.blocks})
        self.play(first, BOTH, FIRST)
        # According to the text the second host sets volume and mode before it attaches.
        self.blocks.sort(key=lambda block: (block[0] == BOTH and 'ask()' not in block[1]))
        self.play(second, BOTH, SECOND)
        self.assertEqual(['1', 'written by the first host'],
                         self.play(second, ATTACHED).splitlines())
        listed = self.storage.api.ask('GET', '/attachments')['attachments']
        self.assertEqual(['attached', 'attached'], [one['status'] for one in listed])
        for host in (first, second):
            self.play(host, DETACHING)
        self.assertEqual([], self.storage.api.ask('GET', '/attachments')['attachments'])
        self.play(first, DETACHED)
