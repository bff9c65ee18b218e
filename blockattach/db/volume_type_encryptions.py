"""How the volumes of a type are encrypted. A type has one encryption at a time, or none.

It is set and removed only while no live volume has the type, under the lock of the type's row.
"""
from collections.abc import Mapping

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import volume_types
from blockattach.domain import records
from blockattach.domain import volume_type

LOG = oslo_log.getLogger(__name__)

_encryptions = models.volume_type_encryptions


@engine.retried
def create(database: engine.Database, type_id: str, provider: str, control_location: str,
           cipher: str | None = None, key_size: int | None = None) -> records.TypeEncryption:
    """Say how the volumes of a type shall be encrypted from now on.

    :param key_size: in bits
    :raises VolumeTypeNotFound: there is no such type
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionExists: it has one
    :raises EncryptedMultiattach: several hosts could share its volumes
    """
    encryption_id = database.new_id()
    with database.writer(engine.inserted(_encryptions.c.id, encryption_id)) as connection:
        if _lock(connection, type_id, 'create') is not None:
            raise errors.VolumeTypeEncryptionExists(volume_type_id=type_id)
        connection.execute(_encryptions.insert().values(
            id=encryption_id, volume_type_id=type_id, live_volume_type_id=type_id,
            provider=provider, control_location=control_location, cipher=cipher,
            key_size=key_size, created_at=database.clock.utcnow()))
        kind = volume_types.read(connection, type_id)
        volume_type.check_sharing(kind)
        assert kind.encryption is not None
    LOG.info('Volume type is encrypted%s', log.fields(volume_type_id=type_id))
    return kind.encryption


@engine.retried
def update(database: engine.Database, type_id: str, encryption_id: str | None,
           changes: Mapping[str, str | int | None]) -> None:
    """Change what is named of a type's encryption; the rest stays.

    :param encryption_id: the one that is meant; None: whichever the type has
    :param changes: new values by their names in `records.TypeEncryption`
    :raises VolumeTypeNotFound: there is no such type
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionNotFound: the type has none, or not that one
    """
    with database.writer() as connection:
        _lock_present(connection, type_id, encryption_id, 'update')
        connection.execute(
            _encryptions.update().where(_encryptions.c.live_volume_type_id == type_id)
            .values(updated_at=database.clock.utcnow(), **changes))
    LOG.info('Encryption of a volume type is changed%s',
             log.fields(volume_type_id=type_id, keys=','.join(sorted(changes))))


@engine.retried
def delete(database: engine.Database, type_id: str, encryption_id: str | None) -> None:
    """Let the volumes of a type be plain from now on; the row stays as history.

    :param encryption_id: the one that is meant; None: whichever the type has
    :raises VolumeTypeNotFound: there is no such type
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionNotFound: the type has none, or not that one
    """
    with database.writer() as connection:
        _lock_present(connection, type_id, encryption_id, 'delete')
        volume_types.remove_encryption(connection, database, type_id)
    LOG.info('Encryption of a volume type is deleted%s', log.fields(volume_type_id=type_id))


def _lock(connection: sa.Connection, type_id: str, verb: str) -> records.TypeEncryption | None:
    """Lock a type that no live volume has; how it is encrypted."""
    volume_types.lock_unused(connection, type_id, f'Cannot {verb} encryption specs. Volume type '
                                                  'in use.')
    return volume_types.read(connection, type_id).encryption


def _lock_present(connection: sa.Connection, type_id: str, encryption_id: str | None,
                  verb: str) -> None:
    found = _lock(connection, type_id, verb)
    if found is None or encryption_id not in (None, found.id):
        raise errors.VolumeTypeEncryptionNotFound(volume_type_id=type_id)
