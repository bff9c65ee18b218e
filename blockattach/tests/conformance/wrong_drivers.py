"""Drivers that are each wrong in one way, and their contract tests, for test_report.

The test loader does not find this module, because its name does not begin with test.
"""
from blockattach.conformance import scsi
from blockattach.conformance import store
from blockattach.conformance import target
from blockattach.storage.domain import connection
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.storage.drivers.targets import tgt
from blockattach.tests.conformance import settings
from blockattach.tests.conformance import test_tgt


class Sound(fake_store.FakeStore):
    """Store without a defect."""


class SoundTest(store.StoreContract):
    has_bytes = False
    kind = Sound

    def make(self):
        self.fake = self.kind(settings.settings('/nowhere'))
        return self.fake

    def size_gb(self, volume):
        return self.fake.sizes()[volume.name]


class Boaster(fake_store.FakeStore):
    """Store that declares a capability that fails."""

    def clone(self, source, volume):
        return None


class BoasterTest(SoundTest):
    kind = Boaster


class Promising(fake_store.FakeStore):
    """Store that declares a capability that no test proves."""

    def wipe(self):
        return None

    def allocated_bytes(self, volume):
        return 0


class PromisingTest(SoundTest):
    kind = Promising

    def test_wipe_gives_the_room_back_once_it_is_cleared(self):
        self.skipTest('no space is reserved')


class Half(fake_store.FakeStore):
    """Store with a part of a capability."""

    delete_snapshot = None


class HalfTest(SoundTest):
    kind = Half


class Limiter(fake_store.FakeStore):
    """Store that reports QoS support."""

    def pools(self):
        found = super().pools()
        found[0].capabilities['QoS_support'] = True
        return found


class LimiterTest(SoundTest):
    kind = Limiter


class Thick(fake_store.FakeStore):
    """Store that reports thick provisioning and allocates more space than it has."""

    def pools(self):
        found = super().pools()
        found[0].capabilities.update(thin_provisioning_support=False,
                                     thick_provisioning_support=True)
        return found


class ThickTest(SoundTest):
    kind = Thick


class Shy(tgt.TgtTarget):
    """Target that supports discard without declaring it."""

    unmaps = None


class ShyTest(test_tgt.Tgt, scsi.ScsiContract):

    def make(self):
        made = super().make()
        shy = Shy(self.settings)
        self.addCleanup(made.stop)
        return shy


class Divided(tgt.TgtTarget):
    """Target that declares shared reservations without supporting them."""

    def reservations(self, volume_id):
        return connection.Reservations()


class DividedTest(test_tgt.Tgt, scsi.ScsiContract):

    def make(self):
        made = super().make()
        divided = Divided(self.settings)
        self.addCleanup(made.stop)
        return divided


class OnePathed(fake_target.FakeTarget):
    """Target that returns fewer portals to some hosts than to others."""

    def _portals(self):
        self.calls = [*getattr(self, 'calls', ()), None]
        return super()._portals()[:len(self.calls)]


class OnePathedTest(target.TargetContract):

    def make(self):
        if not hasattr(self, 'fake'):
            self.fake = OnePathed(settings.several('/nowhere'))
        return self.fake
