"""The tutorial on open-iscsi, as it is written: its commands, between machines."""
import re

from blockattach.tests.lab import base
from blockattach.tests.lab import block_storage
from blockattach.tests.lab import storage_host
from blockattach.tests.lab.machines import guest as guests
from blockattach.tests.lab.machines import initiator
from blockattach.tests.rules import sources

PAGE = 'doc/source/user/tutorial_iscsi.rst'
BLOCK = re.compile(r'^\.\. code-block:: bash\n   :caption: (.*)\n\n((?:   .*\n|\n)+)',
                   re.MULTILINE)
SECONDS = 600.0

BOTH, FIRST, SECOND = 'on both hosts', 'on the first host', 'on the second host'
ATTACHED, DETACHING, DETACHED = f'{SECOND}, attached', f'{BOTH}, detaching', f'{FIRST}, detached'

# What one part has set, the next part finds.
PART = """
set -eu
cd /run
[ ! -e state ] || . ./state
{commands}
declare -p API VOLUME MODE ATTACHMENT PORTAL IQN LUN DISK >state 2>/dev/null || true
declare -f >>state
"""


class TutorialTest(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.storage = storage_host.StorageHost()
        self.addCleanup(self.storage.guest.close)
        self.hosts = [initiator.Initiator(self.a_guest(name, modules=guests.INITIATOR, udev=True))
                      for name in ('first', 'second')]
        guests.start_all(self.storage.guest, *(host.guest for host in self.hosts))
        self.storage.prepare()
        self.storage.serve()
        for host in self.hosts:
            host.start()
        self.blocks = BLOCK.findall((sources.ROOT / PAGE).read_text(encoding='utf-8'))

    def play(self, host, *captions):
        """The blocks with these captions, in their order, in one shell; what they print."""
        address, password = self.storage.service
        commands = '\n'.join(code for caption, code in self.blocks if caption in captions)
        commands = commands.replace('storage.example.org', address).replace(
            'ann:PASSWORD', f'{block_storage.USER}:{password}')
        return host.guest.run('bash', '-c', PART.replace('{commands}', commands),
                              timeout=SECONDS).output

    def test_as_it_is_written(self):
        first, second = self.hosts
        self.assertEqual({BOTH, FIRST, SECOND, ATTACHED, DETACHING, DETACHED},
                         {caption for caption, _ in self.blocks})
        self.play(first, BOTH, FIRST)
        # The second host says which volume and mode before it attaches, as the text says.
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
