"""Records as the database would return them: a test names what matters to it."""
import dataclasses
import datetime

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import records

PROJECT = 'project'
VOLUME = '11111111-1111-4111-8111-111111111111'
ATTACHMENT = '22222222-2222-4222-8222-222222222222'
SERVER = '33333333-3333-4333-8333-333333333333'
SECRET = 'hunter2'
NOW = datetime.datetime(2030, 1, 2, 3, 4, 5)


def attachment(**changes):
    """An attached record, with a secret in every place that may hold one."""
    return _filled(records.Attachment, {
        'id': ATTACHMENT, 'volume_id': VOLUME, 'project_id': PROJECT, 'instance_uuid': SERVER,
        'state': attachment_lifecycle.State.ATTACHED, 'legacy_reservation': False,
        'mode': connection.AccessMode.RO, 'connector': {'initiator': SECRET, 'host': 'compute-1'},
        'initiator': SECRET, 'host': 'compute-1', 'mountpoint': '/dev/vdb',
        'connection': {'target_portal': SECRET, 'auth_password': SECRET}, 'generation': 4,
        'owner': SECRET, 'last_error': SECRET, 'attached_at': NOW, 'created_at': NOW, **changes})


def volume(**changes):
    """An available volume on a pool."""
    return _filled(records.Volume, {
        'id': VOLUME, 'project_id': PROJECT, 'user_id': 'user', 'name': 'data', 'size_gb': 2,
        'own_status': 'available', 'status': 'in-use', 'attach_status': 'attached',
        'multiattach': True, 'bootable': False, 'availability_zone': 'nova',
        'volume_type_id': 'type', 'volume_type_name': 'multiattach', 'pool': 'h@b#p',
        'shared_targets': False, 'metadata': {'key': 'value'}, 'generation': 1,
        'created_at': NOW, 'attached': (), **changes})


def volume_facts(**changes):
    """What decides on the attachments of an available volume without any."""
    return _filled(records.VolumeFacts, {
        'id': VOLUME, 'project_id': PROJECT, 'own_status': 'available', 'status': 'available',
        'attach_status': 'detached', 'multiattach': True, 'bootable': False,
        'single_writer': False, 'detach_announced': 0, 'attachment_moves': 0, **changes})


def _filled(kind, values):
    return kind(**{field.name: values.get(field.name) for field in dataclasses.fields(kind)})
