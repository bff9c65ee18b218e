"""Volume types: names, extra specs, and rejections for types in use."""
import threading

from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import work_ends
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

BY_NAME = paging.Page(sort=(('name', paging.ASCENDING),))


class VolumeTypeCase(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.db = self.database

    def make(self, name='gold', description=None, is_public=True, **extra_specs):
        return volume_types.create(self.db, name, description, is_public, extra_specs)

    def make_volume(self, kind):
        return make.volume(self.db, kind=kind,
                           own_status=volume_lifecycle.OwnStatus.CREATING)

    def remove_volume(self, volume):
        work_ends.refuse(self.db, 'create', volume.id, volume.generation)
        volumes.start_delete(self.db, volume, 60)


@base.on_sqlite_and_servers_in_turn
class CreateTest(VolumeTypeCase):
    def test_type_read_as_written(self):
        made = self.make('gold', 'Fast', False, tier='fast', multiattach='<is> True')
        self.assertEqual(('gold', 'Fast', False, {'tier': 'fast', 'multiattach': '<is> True'}),
                         (made.name, made.description, made.is_public, made.extra_specs))
        self.assertIsNotNone(made.created_at)
        self.assertEqual(made, volume_types.get(self.db, made.id))
        self.assertEqual(made, volume_types.get_by_name(self.db, 'gold'))

    def test_duplicate_type_name_rejected(self):
        self.make('gold')
        with self.assertRaisesRegex(errors.VolumeTypeExists, 'Volume Type gold already exists'):
            self.make('gold', tier='fast')
        found = volume_types.list_page(self.db, None, {}, {}, BY_NAME)
        self.assertEqual([('__DEFAULT__', {}), ('gold', {})],
                         [(kind.name, kind.extra_specs) for kind in found])

    def test_name_of_deleted_type_reusable(self):
        first = self.make('gold')
        volume_types.delete(self.db, first.id)
        self.assertNotEqual(first.id, self.make('gold').id)

    def test_concurrent_creates_of_one_name_succeed_once(self):
        outcomes = []
        start = threading.Barrier(8)

        def ask():
            start.wait()
            try:
                outcomes.append(self.make('gold').name)
            except errors.VolumeTypeExists:
                outcomes.append('refused')
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(['gold', *['refused'] * 7], sorted(outcomes))


@base.on_chosen_databases
class FindTest(VolumeTypeCase):
    def test_type_found_by_id_before_name(self):
        made = self.make('gold')
        namesake = self.make(made.id)
        self.assertEqual(made, volume_types.find(self.db, 'gold'))
        self.assertEqual(made, volume_types.find(self.db, made.id))
        self.assertEqual(namesake, volume_types.find(self.db, namesake.id))

    def test_type_name_may_look_like_id(self):
        name = '0c2b1f5e-7a0d-4c3e-9b1a-5d3f2e1c0b9a'
        self.assertEqual(name, self.make(name) and volume_types.find(self.db, name).name)

    def test_unknown_type_error_names_request(self):
        unknown = '0c2b1f5e-7a0d-4c3e-9b1a-5d3f2e1c0b9a'
        with self.assertRaisesRegex(errors.VolumeTypeNotFound, unknown):
            volume_types.find(self.db, unknown)
        with self.assertRaisesRegex(errors.VolumeTypeNameNotFound, 'with name gold'):
            volume_types.find(self.db, 'gold')
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.get(self.db, 'gold')
        with self.assertRaises(errors.VolumeTypeNameNotFound):
            volume_types.get_by_name(self.db, unknown)

    def test_deleted_type_not_found(self):
        made = self.make('gold')
        volume_types.delete(self.db, made.id)
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.find(self.db, made.id)
        with self.assertRaises(errors.VolumeTypeNameNotFound):
            volume_types.find(self.db, 'gold')


@base.on_chosen_databases
class ListTest(VolumeTypeCase):
    def setUp(self):
        super().setUp()
        default = volume_types.get_by_name(self.db, '__DEFAULT__')
        self.make('a', None, True, tier='fast', color='red')
        self.make('b', None, False, tier='fast')
        self.make('c', None, True, tier='slow')
        volume_types.delete(self.db, default.id)

    def names(self, is_public=None, extra_specs=None, name=None, page=BY_NAME):
        return [kind.name for kind in volume_types.list_page(
            self.db, is_public, extra_specs or {}, {} if name is None else {'name': name}, page)]

    def test_types_filtered(self):
        self.assertEqual(['a', 'b', 'c'], self.names())
        self.assertEqual(['a', 'c'], self.names(is_public=True))
        self.assertEqual(['b'], self.names(is_public=False))
        self.assertEqual(['a', 'b'], self.names(extra_specs={'tier': 'fast'}))
        self.assertEqual(['a'], self.names(extra_specs={'tier': 'fast', 'color': 'red'}))
        self.assertEqual([], self.names(extra_specs={'tier': 'red'}))
        self.assertEqual(['c'], self.names(name='c'))

    def test_types_listed_with_their_extra_specs(self):
        found = volume_types.list_page(self.db, None, {}, {}, BY_NAME)
        self.assertEqual([{'tier': 'fast', 'color': 'red'}, {'tier': 'fast'}, {'tier': 'slow'}],
                         [kind.extra_specs for kind in found])

    def test_types_paginated_by_marker(self):
        first = volume_types.list_page(
            self.db, None, {}, {}, paging.Page(limit=2, sort=(('name', paging.ASCENDING),)))
        rest = paging.Page(limit=2, marker=first[-1].id, sort=(('name', paging.ASCENDING),))
        self.assertEqual(['a', 'b'], [kind.name for kind in first])
        self.assertEqual(['c'], self.names(page=rest))
        with self.assertRaises(errors.VolumeTypeNotFound):
            self.names(page=paging.Page(marker='nowhere'))

    def test_types_sorted_by_every_key(self):
        for key in volume_types.SORT_COLUMNS:
            with self.subTest(key=key):
                page = paging.Page(sort=((key, paging.DESCENDING),))
                self.assertEqual(['a', 'b', 'c'], sorted(self.names(page=page)))


@base.on_chosen_databases
class UpdateTest(VolumeTypeCase):
    def test_update_keeps_omitted_type_fields(self):
        made = self.make('gold', 'Fast', True, tier='fast')
        changed = volume_types.update(self.db, made.id, description='Faster')
        self.assertEqual(('gold', 'Faster', True, {'tier': 'fast'}),
                         (changed.name, changed.description, changed.is_public,
                          changed.extra_specs))
        self.assertFalse(volume_types.update(self.db, made.id, is_public=False).is_public)

    def test_renamed_type_frees_old_name(self):
        made = self.make('gold')
        self.assertEqual('golden', volume_types.update(self.db, made.id, name='golden').name)
        self.make('gold')
        with self.assertRaises(errors.VolumeTypeExists):
            volume_types.update(self.db, made.id, name='gold')
        self.assertEqual('golden', volume_types.get(self.db, made.id).name)

    def test_update_of_unknown_type_not_found(self):
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.update(self.db, 'nowhere', name='x')


@base.on_sqlite_and_servers_in_turn
class DeleteTest(VolumeTypeCase):
    def test_delete_of_used_default_or_last_type_rejected(self):
        gold = self.make('gold')
        default = volume_types.get_by_name(self.db, '__DEFAULT__')
        with self.assertRaisesRegex(errors.InvalidInput, 'is a default volume type'):
            volume_types.delete(self.db, default.id, default_name='__DEFAULT__')
        volume = self.make_volume(gold)
        with self.assertRaisesRegex(errors.InvalidInput,
                                    '^Target volume type is still in use.$'):
            volume_types.delete(self.db, gold.id, default_name='__DEFAULT__')
        self.remove_volume(volume)
        volume_types.delete(self.db, gold.id, default_name='__DEFAULT__')
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.delete(self.db, gold.id)
        with self.assertRaisesRegex(errors.InvalidInput, 'only currently defined'):
            volume_types.delete(self.db, default.id)

    def test_concurrent_deletes_keep_one_type(self):
        kinds = [self.make('gold'), volume_types.get_by_name(self.db, '__DEFAULT__')]
        outcomes = []
        start = threading.Barrier(2)

        def remove(kind):
            start.wait()
            try:
                volume_types.delete(self.db, kind.id)
                outcomes.append('gone')
            except errors.InvalidInput:
                outcomes.append('refused')
        threads = [threading.Thread(target=remove, args=(kind,)) for kind in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(['gone', 'refused'], sorted(outcomes))


@base.on_chosen_databases
class ExtraSpecTest(VolumeTypeCase):
    def specs(self, kind):
        return volume_types.get(self.db, kind.id).extra_specs

    def test_update_keeps_omitted_extra_specs(self):
        kind = self.make('gold', tier='slow', color='red')
        volume_types.set_extra_specs(self.db, kind.id, {'tier': 'fast', 'size': '>= 1'})
        self.assertEqual({'tier': 'fast', 'color': 'red', 'size': '>= 1'}, self.specs(kind))
        volume_types.delete_extra_spec(self.db, kind.id, 'color')
        self.assertEqual({'tier': 'fast', 'size': '>= 1'}, self.specs(kind))

    def test_extra_specs_of_other_type_unchanged(self):
        kind, other = self.make('gold', tier='slow'), self.make('silver', tier='slow')
        volume_types.set_extra_specs(self.db, kind.id, {'tier': 'fast'})
        volume_types.delete_extra_spec(self.db, kind.id, 'tier')
        self.assertEqual({'tier': 'slow'}, self.specs(other))

    def test_unknown_extra_spec_or_type_not_found(self):
        kind = self.make('gold')
        with self.assertRaisesRegex(errors.ExtraSpecNotFound, 'no extra specs with key tier'):
            volume_types.delete_extra_spec(self.db, kind.id, 'tier')
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.set_extra_specs(self.db, 'nowhere', {'a': 'b'})
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.delete_extra_spec(self.db, 'nowhere', 'a')

    def test_extra_specs_of_type_in_use_immutable(self):
        kind = self.make('gold', tier='slow')
        volume = self.make_volume(kind)
        with self.assertRaisesRegex(errors.VolumeTypeInUse, 'currently in use'):
            volume_types.set_extra_specs(self.db, kind.id, {'tier': 'fast'})
        with self.assertRaises(errors.VolumeTypeInUse):
            volume_types.delete_extra_spec(self.db, kind.id, 'tier')
        self.assertEqual({'tier': 'slow'}, self.specs(kind))
        self.remove_volume(volume)
        volume_types.set_extra_specs(self.db, kind.id, {'tier': 'fast'})
        self.assertEqual({'tier': 'fast'}, self.specs(kind))
