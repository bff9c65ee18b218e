"""How the volumes of a type are encrypted. A type has one encryption at a time, or none.

It is set and removed only while no live volume has the type, under the lock of the type's row.
"""
import uuid
from collections.abc import Mapping

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import volume_type_rows
from blockattach.domain import records
from blockattach.domain import volume_type

LOG = oslo_log.getLogger(__name__)

_encryptions = models.volume_type_encryptions

_REFUSAL = 'Cannot %s encryption specs. Volume type in use.'


def find(database: engine.Database, type_id: str) -> records.TypeEncryption | None:
    """The encryption of a type, None if its volumes are plain."""
    with database.reader() as connection:
        return _find(connection, type_id)


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
    encryption_id = str(uuid.uuid4())
    with database.writer(lambda again: again.execute(sa.select(_encryptions.c.id).where(
            _encryptions.c.id == encryption_id).with_for_update()).first() is not None
            ) as connection:
        volume_type_rows.lock_unused(connection, type_id, _REFUSAL % 'create')
        if _find(connection, type_id) is not None:
            raise errors.VolumeTypeEncryptionExists(volume_type_id=type_id)
        connection.execute(_encryptions.insert().values(
            id=encryption_id, volume_type_id=type_id, live_volume_type_id=type_id,
            provider=provider, control_location=control_location, cipher=cipher,
            key_size=key_size, created_at=database.clock.utcnow()))
        [kind] = volume_type_rows.read(connection, type_id)
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
        _lock(connection, type_id, encryption_id, 'update')
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
        _lock(connection, type_id, encryption_id, 'delete')
        volume_type_rows.remove_encryption(connection, database, type_id)
    LOG.info('Encryption of a volume type is deleted%s', log.fields(volume_type_id=type_id))


def _lock(connection: sa.Connection, type_id: str, encryption_id: str | None,
          verb: str) -> None:
    volume_type_rows.lock_unused(connection, type_id, _REFUSAL % verb)
    found = _find(connection, type_id)
    if found is None or encryption_id not in (None, found.id):
        raise errors.VolumeTypeEncryptionNotFound(volume_type_id=type_id)


def _find(connection: sa.Connection, type_id: str) -> records.TypeEncryption | None:
    row = connection.execute(_encryptions.select().where(
        _encryptions.c.live_volume_type_id == type_id)).one_or_none()
    return None if row is None else volume_type_rows.to_encryption(row)
