"""Database as full as after a year, in which most rows are deleted."""
import datetime
import uuid

from blockattach.platform import secrets
from blockattach.storage.db import models

VOLUMES = 3000
PROJECTS = 50
HOSTS = 100
T = models.metadata.tables
START = datetime.datetime(2026, 1, 1)
LATER = datetime.datetime(2199, 1, 1)
_BATCH = 1000
_WORDS = {
    None: {'status': 'available', 'attach_status': 'detached'},
    1: {'status': 'in-use', 'attach_status': 'attached'},
    2: {'status': 'attaching', 'attach_status': 'attaching'},
}


def name(kind, number):
    """Return the id of a resource, which is the same in each run."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f'{kind}-{number}'))


def fill(database):
    """Fill the database and analyze its tables.

    The database also gets a second sealing key, which sealed a part of the credentials.
    """
    old, new = secrets.new_key(), secrets.new_key()
    database.sealer = secrets.Sealer([new, old])
    sealed = [(one.seal('x'), one.ring()[0].id) for one in (
        secrets.Sealer([old]), secrets.Sealer([new]))]
    with database.reader() as connection:
        kind = connection.execute(T['volume_types'].select()).first().id
    with database.writer() as connection:
        for table, rows in (('pools', _pools()), ('services', _services()),
                            ('volumes', _volumes(kind)), ('volume_metadata', _metadata('volume')),
                            ('volume_image_metadata', _metadata('volume')),
                            ('cached_images', _cached_images()),
                            ('snapshots', _snapshots(kind)),
                            ('snapshot_metadata', _metadata('snapshot')),
                            ('work', _work()),
                            ('attachments', _attachments()), ('grants', _grants(sealed)),
                            ('attachment_events', _attachment_events()),
                            ('messages', _messages()), ('idempotency_keys', _keys()),
                            ('waits', _waits()), ('volume_types', _types()),
                            ('quotas', _quotas())):
            rows = list(rows)
            for start in range(0, len(rows), _BATCH):
                connection.execute(T[table].insert(), rows[start:start + _BATCH])
    with database.engine.connect().execution_options(
            isolation_level='AUTOCOMMIT') as connection:
        for table in T:
            connection.exec_driver_sql(
                f'ANALYZE TABLE {table}' if database.engine.dialect.name == 'mysql'
                else f'ANALYZE {table}')


def host(number):
    """Return the ``host@backend`` of a volume."""
    return f'storage-{number % HOSTS}@file'


def _when(number):
    return START + datetime.timedelta(minutes=number)


def _pools():
    for number in range(HOSTS):
        yield {'name': f'{host(number)}#pool', 'host': host(number), 'availability_zone': 'nova',
               'capabilities': '{}', 'provisioned_gb': 0, 'thin': True, 'multiattach': True,
               'allocated_gb': 0, 'reported_at': START}


def _services():
    for number in range(HOSTS):
        yield {'uuid': name('service', number), 'binary': 'cinder-volume', 'host': host(number),
               'availability_zone': 'nova', 'disabled': False, 'process_instance': 'i',
               'release': None, 'reported_at': START, 'created_at': START}


def _volumes(kind):
    for number in range(VOLUMES):
        gone = number % 3 == 0
        creating = number % 100 == 1
        lowest_rank = None if number % 3 != 1 else 2 if number % 100 == 4 else 1
        yield {'id': name('volume', number), 'project_id': f'project-{number % PROJECTS}',
               'user_id': 'u', 'size_gb': 1,
               'own_status': 'deleted' if gone else 'creating' if creating else 'available',
               'lowest_rank': lowest_rank, **_WORDS[lowest_rank], 'multiattach': True,
               'bootable': False, 'availability_zone': 'nova', 'volume_type_id': kind,
               'pool': None if creating else f'{host(number)}#pool', 'shared_targets': False,
               'generation': 1, 'created_at': _when(number),
               'deleted': gone, 'deleted_at': _when(number) if gone else None}


def _work():
    for number in range(VOLUMES):
        yield {'id': name('work', number), 'noun': 'volume',
               'resource_id': name('volume', number), 'verb': 'create', 'generation': 1,
               'host': None if number % 100 == 1 else host(number), 'attempts': 0,
               'deadline': START if number % 100 == 1 else LATER, 'created_at': _when(number)}


def _metadata(kind):
    for number in range(VOLUMES):
        yield {f'{kind}_id': name(kind, number), 'key': 'key', 'value': str(number)}


def _cached_images():
    for number in range(2, VOLUMES, 3):
        yield {'host': host(number), 'image_id': name('image', number),
               'volume_id': name('volume', number), 'used_at': _when(number)}


def _snapshots(kind):
    for number in range(VOLUMES):
        gone = number % 3 == 0
        yield {'id': name('snapshot', number), 'volume_id': name('volume', number),
               'project_id': f'project-{number % PROJECTS}', 'user_id': 'u', 'size_gb': 1,
               'status': 'deleted' if gone else 'available', 'volume_type_id': kind,
               'availability_zone': 'nova', 'pool': f'{host(number)}#pool', 'generation': 2,
               'created_at': _when(number), 'deleted': gone,
               'deleted_at': _when(number) if gone else None}


def _attachments():
    """Yield three attachments per volume. Two of the three are live for a third of the volumes."""
    for number in range(VOLUMES * 3):
        gone = number % 3 != 0 or number % 9 == 0
        connecting = not gone and number % 100 == 3
        yield {'id': name('attachment', number),
               'volume_id': name('volume', (number + 1) % VOLUMES),
               'project_id': f'project-{number % PROJECTS}',
               'instance_uuid': name('instance', number),
               'state': 'gone' if gone else 'connecting' if connecting else 'attached',
               'rank': None if gone else 2 if connecting else 1,
               'legacy_reservation': False, 'mode': 'rw',
               'initiator': f'iqn.{number % 200}', 'host': f'compute-{number % 200}',
               'generation': 3, 'created_at': _when(number), 'updated_at': _when(number),
               'deadline': START if connecting else None,
               'deleted': gone, 'deleted_at': _when(number) if gone else None}


def _attachment_events():
    for number in range(VOLUMES * 3):
        yield {'attachment_id': name('attachment', number), 'generation': 1,
               'volume_id': name('volume', (number + 1) % VOLUMES),
               'project_id': f'project-{number % PROJECTS}', 'event': 'create',
               'new_state': 'reserved', 'created_at': LATER,
               'position': number + 1 if number < VOLUMES * 2 else None}


def _waits():
    for number in range(VOLUMES):
        yield {'attachment_id': name('attachment', number), 'generation': 3,
               'since': START if number % 100 == 3 else LATER}


def _grants(sealed):
    for number in range(VOLUMES):
        password, key_id = sealed[number % 1000 > 0]
        yield {'volume_id': name('volume', number), 'initiator': f'iqn.{number % 200}',
               'alias': '', 'username': 'u', 'sealed_password': password, 'key_id': key_id,
               'created_at': START}


def _messages():
    for number in range(VOLUMES):
        yield {'id': name('message', number), 'project_id': f'project-{number % PROJECTS}',
               'event_id': 'e', 'user_message': 'm', 'message_level': 'ERROR',
               'resource_type': 'VOLUME', 'resource_id': name('volume', number),
               'expires_at': START + datetime.timedelta(days=1000 if number % 100 else 0),
               'created_at': _when(number)}


def _keys():
    for number in range(VOLUMES):
        yield {'scope': name('scope', number), 'body_digest': 'd',
               'resource_id': name('volume', number), 'created_at': START,
               'expires_at': START + datetime.timedelta(days=1000 if number % 100 else 0)}


def _types():
    for number in range(200):
        yield {'id': name('type', number), 'name': f'type-{number}', 'is_public': True,
               'live_name': f'type-{number}', 'created_at': START, 'deleted': False}


def _quotas():
    for number in range(PROJECTS):
        for resource in ('attachments', 'gigabytes', 'volumes'):
            yield {'project_id': f'project-{number}', 'resource': resource, 'hard_limit': 1000}
