"""LVM in a guest: thin and thick volumes on a disk that survives a power loss."""
import hashlib

from blockattach.platform import units
from lab.guests import base
from lab.guests.machines import guest

MAKE = """
set -e
vgcreate -q lab "$1"
lvcreate -q -L 512M -T lab/pool
lvcreate -q -V 1G -T lab/pool -n thin
lvcreate -q -y -L 64M -n thick lab
lvcreate -q -s lab/thin -n copy -kn
"""


class VolumeGroupTest(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.guest = self.a_guest('storage', disks=[guest.make_disk(units.gib_to_bytes(2))],
                                  modules=guest.STORAGE)
        self.guest.start()
        self.guest.run('sh', '-c', MAKE, 'sh', self.guest.device(0))

    def volumes(self):
        done = self.guest.run('lvs', '--noheadings', '-o', 'lv_name,lv_layout', 'lab')
        return dict(line.split() for line in done.output.splitlines())

    def checksum(self, name):
        done = self.guest.run('sh', '-c', 'head -c 1M $0 | sha256sum', f'/dev/lab/{name}')
        return done.output.split()[0]

    def test_volumes_and_their_bytes_outlive_a_power_cut(self):
        before = self.volumes()
        self.assertEqual('thin,sparse', before['thin'])
        self.assertEqual('linear', before['thick'])
        blocks = {name: hashlib.shake_256(name.encode()).digest(units.MIB)
                  for name in ('thin', 'thick')}
        for name, block in blocks.items():
            self.guest.run('dd', f'of=/dev/lab/{name}', 'bs=1M', 'iflag=fullblock', 'oflag=direct',
                           'conv=fsync', given=block)
        self.guest.power_cut()
        self.guest.start()
        self.guest.run('vgchange', '-ay', 'lab')
        self.assertEqual(before, self.volumes())
        for name, block in blocks.items():
            self.assertEqual(hashlib.sha256(block).hexdigest(), self.checksum(name))
        empty = hashlib.sha256(bytes(units.MIB)).hexdigest()
        self.assertEqual(empty, self.checksum('copy'))
