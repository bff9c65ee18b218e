"""Execution of the commands of a tutorial on a storage host and two other hosts."""
import re

from blockattach.tests.rules import sources
from lab.guests import base
from lab.guests import block_storage
from lab.guests import storage_host
from lab.guests.machines import guest as guests
from lab.guests.machines import initiator

BLOCK = re.compile(r'^\.\. code-block:: bash\n   :caption: (.*)\n\n((?:   .*\n|\n)+)',
                   re.MULTILINE)
SECONDS = 600.0

BOTH, FIRST, SECOND = 'on both hosts', 'on the first host', 'on the second host'

# Each part finds the variables of the previous parts.
PART = """
set -eu
cd /run
[ ! -e state ] || . ./state
{commands}
declare -p {names} >state 2>/dev/null || true
declare -f >>state
"""


class TutorialTestCase(base.LabTestCase):
    """Prepared machines for the commands of a tutorial.

    :cvar page: path of the page
    :cvar names: names of the variables that the commands set
    """

    page: str
    names: tuple[str, ...]

    def setUp(self):
        super().setUp()
        self.storage = storage_host.StorageHost()
        self.addCleanup(self.storage.guest.close)
        self.hosts = [initiator.Initiator(self.a_guest(name, modules=guests.INITIATOR, udev=True))
                      for name in ('host-a', 'host-b')]
        guests.start_all(self.storage.guest, *(host.guest for host in self.hosts))
        self.storage.prepare()
        self.storage.serve()
        for host in self.hosts:
            host.start()
        self.blocks = BLOCK.findall((sources.ROOT / self.page).read_text(encoding='utf-8'))
        address, password = self.storage.service
        self.real = {'storage.example.org': address,
                     'ann:PASSWORD': f'{block_storage.USER}:{password}'}

    def play(self, host, *captions):
        """Run the blocks with these captions in one shell and return their output."""
        commands = '\n'.join(code for caption, code in self.blocks if caption in captions)
        for written, real in self.real.items():
            commands = commands.replace(written, real)
        part = PART.replace('{names}', ' '.join(self.names)).replace('{commands}', commands)
        return host.guest.run('bash', '-c', part, timeout=SECONDS).output
