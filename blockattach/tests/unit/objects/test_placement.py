"""Versioned objects: serialization in each version, and fingerprints."""
import math
import unittest

from oslo_versionedobjects import fixture

from blockattach.compute import lifecycle
from blockattach.compute import notices
from blockattach.compute import records
from blockattach.platform.rpc import serializing
from blockattach.storage import objects
from blockattach.storage.domain import connection
from blockattach.storage.domain import pools
from blockattach.storage.rpc import history
from blockattach.tests.unit import samples

# Made by oslo.versionedobjects from the fields. A red test here means that a field has changed:
# raise the object's VERSION, teach obj_make_compatible the older form, add a row to
# blockattach/storage/rpc/history.py, then put the new fingerprint here.
FINGERPRINTS = {
    'Attachment': '1.0-e00f255237bb6c306e95ae6c853bceb1',
    'AttachmentPayload': '1.0-c30790d5bca7cedd5125d0c08f0d87d6',
    'BlockDevicePayload': '1.0-2893acfdfece4654d6ced683ce1eb6b3',
    'PoolsReport': '1.0-ae691864c3f5295cb3b321c02bc74a35',
    'ServerActPayload': '1.0-01bc5998e3a826b2e4b66c07970f6f0b',
    'VolumeAttachmentPayload': '1.0-7b855eb6a83f46d0f19da78880a945e0',
    'VolumeRequest': '1.0-1f5a1fe82297e4e23be17ea1a32ec41c',
}

REQUEST = pools.VolumeRequest(
    volume_id='v', generation=3, size_gb=10, multiattach=True, availability_zone='nova',
    extra_specs={'multiattach': '<is> True'}, tried=('h@b#p', 'h@b#q'), verb='extend', held_gb=4,
    pool='h@b#p', home='h@b#q')


INFO = {'target_lun': 1, 'target_portals': ['a', 'b'], 'encrypted': False,
        'auth_password': samples.SECRET}
SERVER = records.Server(
    samples.SERVER, samples.PROJECT, 'u', 'web', records.Flavor('1', 'm1.tiny', 1, 256, 0), '',
    'host-a', lifecycle.VmState.ACTIVE, None, samples.NOW, samples.NOW)
DEVICE = records.BlockDevice('d', samples.SERVER, samples.VOLUME, '/dev/vda',
                             connection.AccessMode.RO, 'attached', boot_index=0)


def every() -> list[serializing.BlockattachObject]:
    """Return a filled instance of each versioned object."""
    one = samples.attachment()
    return [
        objects.Attachment.from_domain(one, INFO),
        objects.AttachmentPayload.from_domain(one),
        objects.VolumeAttachmentPayload.from_domain(one, samples.volume(), [one]),
        notices.BlockDevicePayload.from_record(DEVICE),
        notices.ServerActPayload.from_record(SERVER, [DEVICE], 'no valid host'),
        objects.PoolsReport.from_capabilities('h@b', {'p': {'free_capacity_gb': 1.5}}),
        objects.VolumeRequest.from_domain(REQUEST)]


def ordered(primitive):
    """Return a primitive with sorted lists of changes, also in nested objects."""
    if isinstance(primitive, list):
        return [ordered(one) for one in primitive]
    if not isinstance(primitive, dict):
        return primitive
    return {key: sorted(value) if key.endswith('.changes') else ordered(value)
            for key, value in primitive.items()}


class FingerprintsTest(unittest.TestCase):
    """Fingerprints of all registered objects."""

    def test_changed_object_has_new_version(self) -> None:
        checker = fixture.ObjectVersionChecker(
            {name: [cls] for name, cls in serializing.registered().items()})
        self.assertEqual(FINGERPRINTS, checker.get_hashes())

    def test_object_serialized_for_each_release(self) -> None:
        made = {one.obj_name(): one for one in every()}
        self.assertEqual(set(serializing.registered()), set(made))
        for release in history.RELEASES:
            for name, version in release.objects.items():
                with self.subTest(release=release.name, name=name):
                    sent = made[name].obj_to_primitive(version, dict(release.objects))
                    again = type(made[name]).obj_from_primitive(sent)
                    self.assertEqual(version, again.VERSION)
                    self.assertEqual(ordered(sent), ordered(again.obj_to_primitive(version)))


class AttachmentTest(unittest.TestCase):
    """Attachment object for consumers."""

    def sent(self, info: dict[str, object] | None) -> objects.Attachment:
        made = objects.Attachment.from_domain(samples.attachment(), info)
        return objects.Attachment.obj_from_primitive(made.obj_to_primitive())

    def test_attachment_has_fields_of_api(self) -> None:
        sent = self.sent(INFO)
        self.assertEqual(INFO, sent.connection_info)
        self.assertEqual(
            (samples.ATTACHMENT, samples.VOLUME, samples.PROJECT, samples.SERVER, 'compute-1',
             '/dev/vdb', 'attached', 'ro'),
            (sent.id, sent.volume_id, sent.project_id, sent.instance_uuid, sent.host,
             sent.mountpoint, sent.attach_status, sent.attach_mode))
        self.assertEqual(samples.NOW, sent.attached_at.replace(tzinfo=None))

    def test_attachment_without_connection_info_has_null(self) -> None:
        self.assertIsNone(self.sent(None).connection_info)

    def test_attachment_repr_hides_secret(self) -> None:
        self.assertNotIn(samples.SECRET, repr(self.sent(INFO)))
        self.assertNotIn(samples.SECRET, str(self.sent(INFO)))


class PayloadTest(unittest.TestCase):
    """Notification payload read back as an object."""

    def test_payload_equal_after_round_trip(self) -> None:
        made = objects.VolumeAttachmentPayload.from_domain(
            samples.attachment(), samples.volume(), [samples.attachment()])
        again = objects.VolumeAttachmentPayload.obj_from_primitive(made.obj_to_primitive())
        self.assertEqual(made.to_body(), again.to_body())
        self.assertNotIn(samples.SECRET, str(made))


class ServerPayloadTest(unittest.TestCase):

    def test_server_payload_body_has_names_and_versions(self) -> None:
        body = notices.ServerActPayload.from_record(SERVER, [DEVICE], None).to_body()
        self.assertEqual({
            'blockattach_object.name': 'ServerActPayload', 'blockattach_object.version': '1.0',
            'uuid': samples.SERVER, 'tenant_id': samples.PROJECT, 'user_id': 'u',
            'display_name': 'web', 'host': 'host-a', 'state': 'active', 'task_state': None,
            'fault': None, 'block_devices': [{
                'blockattach_object.name': 'BlockDevicePayload',
                'blockattach_object.version': '1.0', 'volume_id': samples.VOLUME,
                'device_name': '/dev/vda', 'boot_index': 0, 'tag': None,
                'delete_on_termination': False, 'attach_mode': 'ro'}]}, body)

    def test_block_device_payload_unknown_mode_rejected(self) -> None:
        with self.assertRaises(ValueError):
            notices.BlockDevicePayload(attach_mode='wo')


class VolumeRequestTest(unittest.TestCase):
    """Volume request for the scheduler."""

    def test_volume_request_equal_after_round_trip(self) -> None:
        self.assertEqual(REQUEST, objects.VolumeRequest.from_domain(REQUEST).to_domain())

    def test_volume_request_object_shares_no_data(self) -> None:
        carrier = objects.VolumeRequest.from_domain(REQUEST)
        carrier.extra_specs['other'] = 'x'
        self.assertNotIn('other', REQUEST.extra_specs)


class PoolsReportTest(unittest.TestCase):
    """Report of the pools of a backend."""

    def report(self, **capabilities: object) -> dict[str, object]:
        made = objects.PoolsReport.from_capabilities('h@b', {'p': capabilities})
        return made.capabilities()['p']

    def test_capabilities_equal_after_round_trip(self) -> None:
        values: dict[str, object] = {'number': 1, 'real': 1.5, 'text': 'x', 'none': None,
                                     'flag': True, 'nested': {'list': [1, 2]}}
        self.assertEqual(values, self.report(**values))

    def test_infinite_capacity_sent_as_text(self) -> None:
        seen = self.report(free_capacity_gb=math.inf, nested=[math.inf])
        self.assertEqual({'free_capacity_gb': 'infinite', 'nested': ['infinite']}, seen)
        self.assertEqual(math.inf, pools.gib(seen['free_capacity_gb']))

    def test_nan_capacity_is_zero(self) -> None:
        self.assertEqual(0.0, pools.gib(self.report(free=math.nan)['free']))
        self.assertEqual(0.0, pools.gib(self.report(free=-math.inf)['free']))

    def test_capability_not_serializable_rejected(self) -> None:
        with self.assertRaises(TypeError):
            self.report(what=object())
