"""The carriers: there and back, in any version, and never changed unnoticed."""
import math
import unittest

from oslo_versionedobjects import fixture

from blockattach.domain import pools
from blockattach.objects import base
from blockattach.objects import notifications
from blockattach.objects import placement
from blockattach.tests.unit import samples

# Made by oslo.versionedobjects from the fields. A red test here means that a field has changed:
# raise the object's VERSION, teach obj_make_compatible the older form, add a row to
# blockattach/rpc/history.py, then put the new fingerprint here.
FINGERPRINTS = {
    'AttachmentPayload': '1.0-c30790d5bca7cedd5125d0c08f0d87d6',
    'PoolsReport': '1.0-ae691864c3f5295cb3b321c02bc74a35',
    'VolumeAttachmentPayload': '1.0-7b855eb6a83f46d0f19da78880a945e0',
    'VolumeRequest': '1.0-554448a147995572aa81c33d857a51f2',
}

REQUEST = pools.VolumeRequest(
    volume_id='v', generation=3, size_gb=10, multiattach=True, availability_zone='nova',
    extra_specs={'multiattach': '<is> True'}, tried=('h@b#p', 'h@b#q'))


class FingerprintsTest(unittest.TestCase):
    """All registered carriers."""

    def test_no_object_has_changed_without_a_version(self) -> None:
        checker = fixture.ObjectVersionChecker(
            {name: [cls] for name, cls in base.registered().items()})
        self.assertEqual(FINGERPRINTS, checker.get_hashes())

    def test_every_version_can_be_made_for_an_older_process(self) -> None:
        made = placement.VolumeRequest.from_domain(REQUEST).obj_to_primitive(target_version='1.0')
        again = placement.VolumeRequest.obj_from_primitive(made)
        self.assertEqual(REQUEST, again.to_domain())


class PayloadTest(unittest.TestCase):
    """What is told, for those who read it as an object."""

    def test_it_comes_back_equal(self) -> None:
        made = notifications.VolumeAttachmentPayload.from_domain(
            samples.attachment(), samples.volume(), [samples.attachment()])
        again = notifications.VolumeAttachmentPayload.obj_from_primitive(made.obj_to_primitive())
        self.assertEqual(made.told(), again.told())
        self.assertNotIn(samples.SECRET, str(made))


class VolumeRequestTest(unittest.TestCase):
    """The request, as the scheduler reasons about it."""

    def test_it_comes_back_equal(self) -> None:
        self.assertEqual(REQUEST, placement.VolumeRequest.from_domain(REQUEST).to_domain())

    def test_the_carrier_shares_nothing_with_the_request(self) -> None:
        carrier = placement.VolumeRequest.from_domain(REQUEST)
        carrier.extra_specs['other'] = 'x'
        self.assertNotIn('other', REQUEST.extra_specs)


class PoolsReportTest(unittest.TestCase):
    """What a backend says, whatever it says."""

    def report(self, **capabilities: object) -> dict[str, object]:
        made = placement.PoolsReport.from_capabilities('h@b', {'p': capabilities})
        return made.capabilities()['p']

    def test_plain_values_come_back(self) -> None:
        values: dict[str, object] = {'number': 1, 'real': 1.5, 'text': 'x', 'none': None,
                                     'flag': True, 'nested': {'list': [1, 2]}}
        self.assertEqual(values, self.report(**values))

    def test_room_without_end_is_said_in_words(self) -> None:
        seen = self.report(free_capacity_gb=math.inf, nested=[math.inf])
        self.assertEqual({'free_capacity_gb': 'infinite', 'nested': ['infinite']}, seen)
        self.assertEqual(math.inf, pools.gib(seen['free_capacity_gb']))

    def test_what_is_no_number_is_no_room(self) -> None:
        self.assertEqual(0.0, pools.gib(self.report(free=math.nan)['free']))
        self.assertEqual(0.0, pools.gib(self.report(free=-math.inf)['free']))

    def test_what_cannot_be_said_is_refused(self) -> None:
        with self.assertRaises(TypeError):
            self.report(what=object())
