"""Encryption of volume types: rows, rejections for types in use, and concurrent requests."""
import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import work_ends
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain import volume_type
from blockattach.tests.db import base
from blockattach.tests.db import test_races
from blockattach.tests.fixtures import make

SHARED = {'multiattach': '<is> True'}
ROUNDS = 10
MANY = 8


@base.on_chosen_databases
class LifecycleTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.kind = make.volume_type(self.database)

    def create(self, kind=None, cipher='aes-xts-plain64', key_size=256):
        return volume_types.create_encryption(self.database, (kind or self.kind).id, 'luks',
                                  volume_type.FRONT_END, cipher, key_size)

    def found(self, type_id=None):
        return volume_types.get(self.database, type_id or self.kind.id).encryption

    def rows(self):
        """Return the rows of all encryptions, also of deleted ones."""
        with self.database.reader() as connection:
            return connection.execute(sa.text(
                'SELECT volume_type_id, deleted, deleted_at, live_volume_type_id '
                'FROM volume_type_encryptions ORDER BY created_at')).all()

    def test_type_encryption_read_as_written(self):
        self.assertIsNone(self.found())
        made = self.create()
        self.assertEqual(
            (self.kind.id, 'luks', 'front-end', 'aes-xts-plain64', 256, None),
            (made.volume_type_id, made.provider, made.control_location, made.cipher,
             made.key_size, made.updated_at))
        self.assertEqual(made, self.found())
        self.assertEqual(made, volume_types.get(self.database, self.kind.id).encryption)
        self.assertIsNone(make.volume_type(self.database).encryption)

    def test_second_encryption_of_type_rejected(self):
        first = self.create()
        with self.assertRaisesRegex(errors.VolumeTypeEncryptionExists,
                                    f'for type {self.kind.id} already exists'):
            self.create()
        self.assertEqual(first, self.found())

    def test_update_keeps_omitted_encryption_fields(self):
        made = self.create()
        other = self.create(make.volume_type(self.database))
        volume_types.update_encryption(self.database, self.kind.id, made.id, {'cipher': None})
        volume_types.update_encryption(self.database, self.kind.id, None, {'key_size': 512})
        found = self.found()
        self.assertEqual((made.id, 'luks', 'front-end', None, 512),
                         (found.id, found.provider, found.control_location, found.cipher,
                          found.key_size))
        self.assertIsNotNone(found.updated_at)
        self.assertEqual(other, self.found(other.volume_type_id))

    def test_deleted_encryption_kept_as_deleted_row(self):
        first = self.create()
        volume_types.delete_encryption(self.database, self.kind.id, first.id)
        self.assertIsNone(self.found())
        self.assertIsNone(volume_types.get(self.database, self.kind.id).encryption)
        second = self.create()
        self.assertNotEqual(first.id, second.id)
        gone, live = self.rows()
        self.assertEqual((True, None), (bool(gone.deleted), gone.live_volume_type_id))
        self.assertIsNotNone(gone.deleted_at)
        self.assertEqual((False, None, self.kind.id),
                         (bool(live.deleted), live.deleted_at, live.live_volume_type_id))

    def test_delete_of_type_deletes_encryption(self):
        self.create()
        volume_types.delete(self.database, self.kind.id)
        [gone] = self.rows()
        self.assertIsNone(gone.live_volume_type_id)
        self.assertTrue(gone.deleted)
        self.assertIsNotNone(gone.deleted_at)

    def test_unknown_type_or_encryption_not_found(self):
        acts = {'update': lambda type_id, named: volume_types.update_encryption(
                    self.database, type_id, named, {'key_size': 1}),
                'delete': lambda type_id, named: volume_types.delete_encryption(
                    self.database, type_id, named)}
        for name, act in acts.items():
            with self.subTest(name):
                with self.assertRaisesRegex(errors.VolumeTypeEncryptionNotFound,
                                            f'for type {self.kind.id} does not exist'):
                    act(self.kind.id, None)
                with self.assertRaises(errors.VolumeTypeNotFound):
                    act('nowhere', None)
        with self.assertRaises(errors.VolumeTypeNotFound):
            volume_types.create_encryption(self.database, 'nowhere', 'luks',
                                           volume_type.BACK_END)
        made = self.create()
        another = self.create(make.volume_type(self.database))
        for name, act in acts.items():
            with self.subTest(name), self.assertRaises(errors.VolumeTypeEncryptionNotFound):
                act(self.kind.id, another.id)
        self.assertEqual(made, self.found())

    def test_encryption_change_of_type_in_use_rejected(self):
        volume = make.volume(self.database, kind=self.kind)
        with self.assertRaisesRegex(errors.VolumeTypeInUse, '^Cannot create encryption specs. '
                                                            'Volume type in use.$'):
            self.create()
        self.remove(volume)
        made = self.create()
        volume = make.volume(self.database, kind=volume_types.get(self.database, self.kind.id))
        with self.assertRaisesRegex(errors.VolumeTypeInUse, '^Cannot update encryption specs. '):
            volume_types.update_encryption(self.database, self.kind.id, None, {'key_size': 1})
        with self.assertRaisesRegex(errors.VolumeTypeInUse, '^Cannot delete encryption specs. '):
            volume_types.delete_encryption(self.database, self.kind.id, None)
        self.assertEqual(made, self.found())
        self.remove(volume)
        volume_types.delete_encryption(self.database, self.kind.id, None)

    def remove(self, volume):
        deleting = volumes.start_delete(self.database, volume, 60)
        work_ends.finish(self.database, volumes.deletion(volume.id, deleting.generation))


@base.on_chosen_databases
class VolumeTest(base.DatabaseTestCase):
    """Encryption of a volume by its type as it was checked."""

    def draft(self, kind):
        return volumes.Draft(make.PROJECT, make.USER, None, None, 1, kind, make.ZONE, {})

    def test_volume_encrypted_by_type(self):
        kind = make.encrypted_type(self.database)
        self.assertIs(True, make.volume(self.database, kind=kind).encrypted)
        self.assertIs(False, make.volume(self.database).encrypted)

    def test_create_with_type_changed_since_check_rejected(self):
        changes = {
            'shared': lambda kind: volume_types.set_extra_specs(self.database, kind.id, SHARED),
            'encrypted': lambda kind: volume_types.create_encryption(
                self.database, kind.id, 'luks', volume_type.FRONT_END),
            'changed': lambda kind: volume_types.update_encryption(
                self.database, kind.id, None, {'control_location': volume_type.FRONT_END}),
            'plain': lambda kind: volume_types.delete_encryption(self.database, kind.id, None)}
        for name, change in changes.items():
            kind = make.encrypted_type(self.database) if name in (
                'changed', 'plain') else make.volume_type(self.database)
            change(kind)
            with self.subTest(name), self.assertRaisesRegex(errors.VolumeTypeChanged, kind.id):
                volumes.create(self.database, self.draft(kind), 60)
        self.assertEqual(0, volume_queries.count(self.database, volume_queries.Filters(None)))

    def test_create_with_type_renamed_since_check_accepted(self):
        kind = make.encrypted_type(self.database)
        volume_types.update(self.database, kind.id, 'other', 'words')
        self.assertTrue(volumes.create(self.database, self.draft(kind), 60).encrypted)

    def test_create_with_type_made_private_since_check_rejected(self):
        kind = make.volume_type(self.database)
        volume_types.update(self.database, kind.id, is_public=False)
        with self.assertRaisesRegex(errors.VolumeTypeChanged, kind.id):
            volumes.create(self.database, self.draft(kind), 60)
        private = volume_types.get(self.database, kind.id)
        volume_types.update(self.database, kind.id, is_public=True)
        self.assertEqual(kind.id, volumes.create(self.database, self.draft(private), 60)
                         .volume_type_id)

    def test_create_with_type_deleted_since_check_not_found(self):
        kind = make.volume_type(self.database)
        volume_types.delete(self.database, kind.id)
        with self.assertRaises(errors.VolumeTypeNotFound):
            volumes.create(self.database, self.draft(kind), 60)


@base.on_sqlite_and_servers_in_turn
class RaceTest(test_races.Case):

    def encrypt(self, kind):
        return lambda database: volume_types.create_encryption(database, kind.id, 'luks',
                                                   volume_type.BACK_END)

    def share(self, kind):
        return lambda database: volume_types.set_extra_specs(database, kind.id, SHARED)

    def use(self, kind):
        return lambda database: make.volume(database, kind=kind,
                                            own_status=volume_lifecycle.OwnStatus.CREATING)

    def test_concurrent_encryptions_of_type_succeed_once(self):
        kind = make.volume_type(self.database)
        made, refused = self.split(self.at_once([self.encrypt(kind)] * MANY))
        self.assertEqual([errors.VolumeTypeEncryptionExists] * (MANY - 1), refused)
        self.assertEqual(made, [volume_types.get(self.database, kind.id).encryption])

    def test_concurrent_create_and_type_change_consistent(self):
        for change in (self.encrypt, self.share):
            for _ in range(ROUNDS):
                kind = make.volume_type(self.database)
                *answers, changed = self.at_once([*[self.use(kind)] * MANY, change(kind)])
                made, refused = self.split(answers)
                with self.subTest(made=len(made)):
                    if isinstance(changed, Exception):
                        self.assertIsInstance(changed, errors.VolumeTypeInUse)
                        self.assertEqual([], refused)
                        self.assertEqual({(False, False)}, {
                            (volume.encrypted, volume.multiattach) for volume in made})
                    else:
                        self.assertEqual([errors.VolumeTypeChanged] * MANY, refused)

    def test_concurrent_create_and_private_type_consistent(self):
        for _ in range(ROUNDS):
            kind = make.volume_type(self.database)
            *answers, _ = self.at_once([
                *[self.use(kind)] * MANY, lambda database, kind=kind: volume_types.update(
                    database, kind.id, is_public=False)])
            made, refused = self.split(answers)
            self.assertEqual({errors.VolumeTypeChanged} if refused else set(), set(refused))
            self.assertEqual(len(made), volume_queries.totals(
                self.database, volume_queries.Filters(None, {'volume_type_id': kind.id})).count)

    def test_concurrent_create_and_type_delete_exclude_each_other(self):
        for _ in range(ROUNDS):
            kind = make.volume_type(self.database)
            *answers, gone = self.at_once([*[self.use(kind)] * MANY, lambda database, kind=kind:
                                           volume_types.delete(database, kind.id)])
            made, refused = self.split(answers)
            if isinstance(gone, Exception):
                self.assertEqual((MANY, 'Target volume type is still in use.'),
                                 (len(made), str(gone)))
            else:
                self.assertEqual([errors.VolumeTypeNotFound] * MANY, refused)
