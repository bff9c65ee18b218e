"""tgt keeps the target's contract, before real initiators."""
import dataclasses
import os

from blockattach import units
from blockattach.conformance import scsi as kit_scsi
from blockattach.conformance import target
from blockattach.drivers.targets import tgt
from blockattach.drivers.targets import tgtd
from blockattach.testing import initiator
from blockattach.testing import scsi
from blockattach.tests.conformance import settings


class Tgt(target.TargetBase):
    """A tgtd of its own for each test."""

    def make(self) -> tgt.TgtTarget:
        if not hasattr(self, 'settings'):
            settings.outside_program(self, tgtd.program() is not None, 'tgtd')
            self.settings = dataclasses.replace(
                settings.settings(settings.folder(self), settings.free_port()),
                target_secondary_ip_addresses=settings.more_addresses())
        made = tgt.TgtTarget(self.settings)
        self.addCleanup(made.stop)
        made.start()
        return made

    def portals(self, port: int | None = None) -> tuple[str, ...]:
        """Where it should be found."""
        return tuple(
            f'[{address}]:{port or self.settings.target_port}' if ':' in address
            else f'{address}:{port or self.settings.target_port}' for address in (
                self.settings.target_ip_address, *self.settings.target_secondary_ip_addresses))

    def make_device(self, volume_id: str, size_gb: int) -> str:
        device = os.path.join(self.settings.state_dir, f'volume-{volume_id}')
        with open(device, 'wb') as file:
            file.truncate(units.gib_to_bytes(size_gb))
        return device

    def grow_device(self, device: str, size_gb: int) -> None:
        os.truncate(device, units.gib_to_bytes(size_gb))

    def host(self) -> initiator.KitInitiator:
        settings.outside_program(self, initiator.available(), initiator.PROGRAM)
        return initiator.KitInitiator(timeout=60.0, comes_back=False)

    def commander(self) -> scsi.KitScsi:
        settings.outside_program(self, scsi.available(), 'libiscsi')
        return scsi.KitScsi()


class TgtTargetTest(Tgt, target.TargetContract):
    pass


class TgtAccessTest(Tgt, target.AccessContract):
    pass


class TgtScsiTest(Tgt, kit_scsi.ScsiContract):
    pass
