"""LIO driver on a simulated kernel for tests."""
import contextlib
import dataclasses
import os

from blockattach.conformance import target
from blockattach.storage.drivers.targets import lio
from blockattach.storage.privileged import context
from blockattach.tests.conformance import settings
from blockattach.tests.fixtures import lio_kernel


class Lio(target.TargetBase):
    """Test case with a simulated kernel of its own."""

    def setUp(self):
        self.kernel = lio_kernel.FakeLio()
        playing = contextlib.ExitStack()
        playing.enter_context(self.kernel.installed(context.lio))
        self.addCleanup(playing.close)
        self.settings = dataclasses.replace(settings.settings(settings.folder(self)),
                                            target='lio', target_port=3260,
                                            target_secondary_ip_addresses=('127.0.0.2', '::1'))
        super().setUp()

    def make(self):
        made = lio.LioTarget(self.settings)
        made.check()
        return made

    def make_device(self, volume_id, size_gb):
        path = f'/dev/fake/volume-{volume_id}'
        self.kernel.add_device(path)
        return path

    def name(self, export):
        return f'{self.settings.target_prefix}{export.name}'

    def group(self, export):
        return f'{self.kernel.root}/iscsi/{self.name(export)}/tpgt_1'

    def entry(self, export, grant):
        return f'{self.group(export)}/acls/{grant.initiator}'

    def store(self, export):
        return os.path.realpath(self.link(f'{self.group(export)}/lun/lun_0'))

    def link(self, folder):
        [found] = [path for path in (f'{folder}/{name}' for name in os.listdir(folder))
                   if os.path.islink(path)]
        return found

    def logs_in(self, export, grant):
        return self.kernel.log_in(self.name(export), grant.initiator, grant.credential.username,
                                  grant.credential.password)

    def truth(self, export):
        """Return the grants of a volume that the driver lists, by initiator."""
        return {grant.initiator: grant for found in self.target.exports()
                if found.volume_id == export.volume_id for grant in found.grants}

    def on_disk(self):
        """Return the paths of all files and folders below the root of the kernel."""
        return sorted(os.path.join(folder, name) for folder, names, _ in os.walk(self.kernel.root)
                      for name in names)
