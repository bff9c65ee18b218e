"""Access of projects to private types, and default types of projects."""
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db.types import default_types
from blockattach.storage.db.types import type_access
from blockattach.storage.db.types import volume_types
from blockattach.tests.db import base
from blockattach.tests.db import test_races
from blockattach.tests.fixtures import make

ONE, OTHER = make.PROJECT, 'other'
ROUNDS = 10
MANY = 8
BY_NAME = paging.Page(sort=(('name', paging.ASCENDING),))


@base.on_sqlite_and_servers_in_turn
class AccessTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.kind = make.volume_type(self.database, 'gold', is_public=False)

    def test_type_access_added_and_removed(self):
        type_access.add(self.database, self.kind.id, OTHER)
        type_access.add(self.database, self.kind.id, ONE)
        self.assertEqual([ONE, OTHER], type_access.projects(self.database, self.kind.id))
        type_access.remove(self.database, self.kind.id, ONE)
        self.assertEqual([(ONE, False), (OTHER, True), (None, False)], [
            (project, volume_types.has_access(self.database, self.kind.id, project))
            for project in (ONE, OTHER, None)])

    def test_invalid_type_access_rejected(self):
        type_access.add(self.database, self.kind.id, ONE)
        self.assertRaises(errors.VolumeTypeAccessExists, type_access.add, self.database,
                          self.kind.id, ONE)
        self.assertRaises(errors.VolumeTypeAccessNotFound, type_access.remove, self.database,
                          self.kind.id, OTHER)
        public = make.volume_type(self.database)
        volume_types.delete(self.database, self.kind.id)
        for verb in (type_access.add, type_access.remove):
            self.assertRaises(errors.VolumeTypePublic, verb, self.database, public.id, ONE)
            self.assertRaises(errors.VolumeTypeNotFound, verb, self.database, self.kind.id, ONE)
        self.assertEqual([], type_access.projects(self.database, self.kind.id))

    def test_types_listed_by_access(self):
        type_access.add(self.database, self.kind.id, ONE)
        make.volume_type(self.database, 'hidden', is_public=False)

        def names(is_public, project_id):
            return [kind.name for kind in volume_types.list_page(
                self.database, is_public, {}, {}, BY_NAME, project_id)]

        public = [make.DEFAULT_TYPE]
        self.assertEqual(
            [[*public, 'gold'], public, public, ['gold', 'hidden'], [*public, 'gold', 'hidden']],
            [names(True, ONE), names(True, OTHER), names(True, None), names(False, ONE),
             names(None, ONE)])


@base.on_sqlite_and_servers_in_turn
class DefaultTest(base.DatabaseTestCase):

    def test_project_default_type_precedes_configured_default(self):
        kind = make.volume_type(self.database, 'gold')
        default_types.change(self.database, ONE, kind.id)
        self.assertEqual(['gold', make.DEFAULT_TYPE, make.DEFAULT_TYPE, 'gold'], [
            volume_types.default(self.database, project, name).name for project, name in (
                (ONE, make.DEFAULT_TYPE), (OTHER, make.DEFAULT_TYPE), (None, make.DEFAULT_TYPE),
                (ONE, 'lost'))])
        with self.assertRaisesRegex(errors.VolumeTypeNameNotFound, 'lost'):
            volume_types.default(self.database, OTHER, 'lost')

    def test_default_type_changed_and_removed(self):
        first, second = (make.volume_type(self.database) for _ in range(2))
        for kind in (first, second, second):
            default_types.change(self.database, ONE, kind.id)
            self.assertEqual(kind.id, default_types.get(self.database, ONE).volume_type_id)
        self.assertRaises(errors.InvalidInput, volume_types.delete, self.database, second.id)
        volume_types.delete(self.database, first.id)
        self.assertRaises(errors.VolumeTypeNotFound, default_types.change, self.database, ONE,
                          first.id)
        for _ in range(2):
            default_types.remove(self.database, ONE)
        self.assertRaises(errors.DefaultTypeNotFound, default_types.get, self.database, ONE)
        self.assertEqual([], default_types.list_all(self.database))
        volume_types.delete(self.database, second.id)


@base.on_sqlite_and_servers_in_turn
class RaceTest(test_races.Case):

    def test_concurrent_type_access_added_once(self):
        kind = make.volume_type(self.database, is_public=False)
        made, refused = self.split(self.at_once([
            lambda database: type_access.add(database, kind.id, ONE)] * MANY))
        self.assertEqual(([None], [errors.VolumeTypeAccessExists] * (MANY - 1)), (made, refused))

    def test_concurrent_delete_and_default_of_type_exclude_each_other(self):
        for _ in range(ROUNDS):
            kind = make.volume_type(self.database)
            *answers, gone = self.at_once([
                *[lambda database, number=number, kind=kind: default_types.change(
                    database, str(number // 2), kind.id) for number in range(MANY)],
                lambda database, kind=kind: volume_types.delete(database, kind.id)])
            made, refused = self.split(answers)
            if isinstance(gone, Exception):
                self.assertIn('is a default volume type', str(gone))
                self.assertEqual(MANY, len(made))
            else:
                self.assertEqual([errors.VolumeTypeNotFound] * MANY, refused)
            for number in range(MANY):
                default_types.remove(self.database, str(number))
