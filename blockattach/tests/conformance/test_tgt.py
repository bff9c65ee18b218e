"""tgt keeps the target's contract, before real initiators."""
import os

from blockattach import units
from blockattach.conformance import target
from blockattach.drivers.targets import tgt
from blockattach.drivers.targets import tgtd
from blockattach.testing import initiator
from blockattach.tests.conformance import settings


class Tgt(target.TargetBase):
    """A tgtd of its own for each test."""

    def make(self) -> tgt.TgtTarget:
        if not hasattr(self, 'settings'):
            settings.outside_program(self, tgtd.program() is not None, 'tgtd')
            self.settings = settings.settings(settings.folder(self), settings.free_port())
        made = tgt.TgtTarget(self.settings)
        self.addCleanup(made.stop)
        made.start()
        return made

    def make_device(self, volume_id: str, size_gb: int) -> str:
        device = os.path.join(self.settings.state_dir, f'volume-{volume_id}')
        with open(device, 'wb') as file:
            file.truncate(units.gib_to_bytes(size_gb))
        return device

    def grow_device(self, device: str, size_gb: int) -> None:
        os.truncate(device, units.gib_to_bytes(size_gb))

    def host(self) -> initiator.KitInitiator:
        settings.outside_program(self, initiator.available(), initiator.PROGRAM)
        return initiator.KitInitiator(timeout=3.0)


class TgtTargetTest(Tgt, target.TargetContract):
    pass


class TgtAccessTest(Tgt, target.AccessContract):
    pass
