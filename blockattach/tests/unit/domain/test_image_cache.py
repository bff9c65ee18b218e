"""Rules of the image-volume cache: caching, use and eviction."""
import dataclasses
import datetime
import types
import unittest

from blockattach.storage.domain import image_cache
from blockattach.storage.domain import images

AT = datetime.datetime(2026, 1, 1)
IMAGE = images.Image('an-image', 'active', updated_at='2026-01-01T00:00:00Z')
ENTRY = image_cache.Entry('an-image', 'a-volume', 2, AT, AT, 'available', True)


def entry(number, **changed):
    """Return a cache entry of another image, used later the higher its number."""
    return dataclasses.replace(
        ENTRY, image_id=f'image-{number}', volume_id=f'volume-{number}',
        used_at=AT + datetime.timedelta(hours=number), **changed)


class ImageTest(unittest.TestCase):

    def test_updated_at_parsed(self):
        for text, expected in (
                ('2026-01-01T00:00:00Z', AT), ('2026-01-01T02:00:00+02:00', AT),
                ('2026-01-01T00:00:00', AT), ('yesterday', None), (None, None)):
            with self.subTest(text):
                self.assertEqual(expected, image_cache.updated_at(
                    dataclasses.replace(IMAGE, updated_at=text)))

    def test_is_cacheable(self):
        for encrypted, changed, expected in (
                (False, {}, True), (True, {}, False), (False, {'updated_at': None}, False),
                (False, {'properties': {'cinder_encryption_key_id': 'a-key'}}, False)):
            with self.subTest(encrypted=encrypted, changed=changed):
                self.assertIs(expected, image_cache.is_cacheable(
                    dataclasses.replace(IMAGE, **changed),
                    types.SimpleNamespace(encrypted=encrypted)))

    def test_is_usable(self):
        for changed, size_gb, expected in (
                ({}, 2, True), ({}, 3, True), ({}, 1, False),
                ({'status': 'downloading'}, 2, False), ({'status': 'in-use'}, 2, False),
                ({'intact': False}, 2, False),
                ({'image_updated_at': AT - datetime.timedelta(seconds=1)}, 2, False)):
            with self.subTest(changed=changed, size_gb=size_gb):
                self.assertIs(expected, image_cache.is_usable(
                    dataclasses.replace(ENTRY, **changed), IMAGE, size_gb))


class ReplacedTest(unittest.TestCase):

    def replaced(self, entries, size_gb=1, **bounds):
        found = image_cache.replaced(entries, IMAGE, size_gb, image_cache.Bounds(**bounds))
        return found if found is None else [entry.volume_id for entry in found]

    def test_unbounded_cache_evicts_nothing(self):
        self.assertEqual([], self.replaced([entry(number) for number in range(9)], 999))

    def test_least_recently_used_evicted(self):
        entries = [entry(2), entry(0), entry(1)]
        for bounds, expected in (
                ({'max_count': 4}, []), ({'max_count': 3}, ['volume-0']),
                ({'max_count': 1}, ['volume-0', 'volume-1', 'volume-2']),
                ({'max_gb': 7}, []), ({'max_gb': 6}, ['volume-0']),
                ({'max_gb': 4, 'max_count': 4}, ['volume-0', 'volume-1'])):
            with self.subTest(bounds):
                self.assertEqual(expected, self.replaced(entries, **bounds))

    def test_image_larger_than_cache_evicts_nothing(self):
        self.assertIsNone(self.replaced([entry(0)], 5, max_gb=4))

    def test_cached_image_not_cached_again(self):
        for status in ('available', 'downloading'):
            self.assertIsNone(self.replaced([dataclasses.replace(ENTRY, status=status)]))

    def test_unusable_entry_evicted_first(self):
        for changed in ({'status': 'error'}, {'intact': False},
                        {'image_updated_at': AT - datetime.timedelta(days=1)}):
            with self.subTest(changed):
                self.assertEqual(['a-volume'], self.replaced(
                    [entry(0), dataclasses.replace(ENTRY, **changed)], max_count=2))
        self.assertEqual(['volume-1'], self.replaced([entry(0), entry(1, intact=False)]))
