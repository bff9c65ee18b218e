"""Rules for the source of a new volume."""
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import records
from blockattach.storage.domain import sources

_AT = None


def source(snapshot_id=None, **facts):
    return sources.Source(**{
        'volume_id': 'v', 'snapshot_id': snapshot_id, 'project_id': 'p', 'size_gb': 2,
        'status': 'available', 'volume_type_id': 't', 'availability_zone': 'nova',
        'pool': 'h@b#p', **facts})


def kind(name='t', provider=None, **specs):
    encryption = None if provider is None else records.TypeEncryption(
        f'of-{name}', name, provider, 'back-end', None, None, _AT, _AT)
    return records.VolumeType(name, name, None, True, specs, _AT, _AT, encryption)


class CheckTest(unittest.TestCase):

    def test_source_checked_by_status(self):
        for status in ('available', 'in-use', 'creating', 'error', 'deleting', 'reserved',
                       'attaching', 'maintenance', 'awaiting-transfer', 'extending'):
            with self.subTest(status=status):
                volume, snapshot = source(status=status), source('s', status=status)
                if status in ('available', 'in-use'):
                    sources.check(volume, 2)
                else:
                    self.assertRaises(errors.InvalidVolume, sources.check, volume, 2)
                if status == 'available':
                    sources.check(snapshot, 2)
                else:
                    self.assertRaises(errors.InvalidSnapshot, sources.check, snapshot, 2)

    def test_volume_smaller_than_source_rejected(self):
        for of in (source(), source('s')):
            sources.check(of, 2)
            sources.check(of, 3)
            self.assertRaises(errors.InvalidInput, sources.check, of, 1)

    def test_other_availability_zone_than_source_rejected(self):
        for of in (source(), source('s')):
            sources.check_zone(of, 'nova')
            self.assertRaises(errors.InvalidInput, sources.check_zone, of, 'east')

    def test_host_and_columns_of_source(self):
        self.assertEqual('h@b', source().host)
        self.assertIsNone(source(pool=None).host)
        self.assertEqual({'source_volid': 'v'}, source().columns)
        self.assertEqual({'snapshot_id': 's'}, source('s').columns)


class TypeTest(unittest.TestCase):

    # The source's type, the new one, how many backends there are, whether they go together.
    ROWS = (
        (kind(), kind(), 2, True),
        (kind(), kind('o'), 1, True),
        (kind(), kind('o'), 2, False),
        (kind(volume_backend_name='b'), kind('o', volume_backend_name='b'), 2, True),
        (kind(volume_backend_name='b'), kind('o', volume_backend_name='c'), 2, False),
        (kind(volume_backend_name='b'), kind('o'), 2, False),
        (kind(), kind('o', volume_backend_name='b'), 2, False),
        (kind(), kind('o', provider='luks'), 1, False),
        (kind(provider='luks'), kind('o'), 1, False),
        (kind(provider='luks'), kind('o', provider='plain'), 1, False),
        (kind(provider='luks'), kind('o', provider='luks'), 1, True),
    )

    def test_type_compatible_with_source(self):
        for number, (own, other, backends, passes) in enumerate(self.ROWS):
            for of in (source(), source('s')):
                with self.subTest(number=number, of=of):
                    if passes:
                        sources.check_type(of, own, other, backends)
                    else:
                        self.assertRaises(errors.InvalidInput, sources.check_type, of, own,
                                          other, backends)
