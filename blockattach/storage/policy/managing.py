"""Policy rules of manageable volumes and snapshots, with the names of Cinder's rules."""
from blockattach.platform.policy import base

_VOLUMES, _SNAPSHOTS = '/manageable_volumes', '/manageable_snapshots'

LIST_VOLUMES = base.Rule(
    'volume_extension:list_manageable', base.ADMIN, 'List volumes of a backend that are available '
    'to manage.', f'GET {_VOLUMES}', f'GET {_VOLUMES}/detail')
MANAGE_VOLUME = base.Rule(
    'volume_extension:volume_manage', base.ADMIN, 'Manage an existing volume of a backend.',
    f'POST {_VOLUMES}')
UNMANAGE_VOLUME = base.Rule(
    'volume_extension:volume_unmanage', base.ADMIN, 'Stop managing a volume without deleting the '
    'volume on its backend.',
    'POST /volumes/{volume_id}/action (os-unmanage)')
LIST_SNAPSHOTS = base.Rule(
    'snapshot_extension:list_manageable', base.ADMIN, 'List snapshots of a backend that are '
    'available to manage.', f'GET {_SNAPSHOTS}', f'GET {_SNAPSHOTS}/detail')
MANAGE_SNAPSHOT = base.Rule(
    'snapshot_extension:snapshot_manage', base.ADMIN, 'Manage an existing snapshot of a backend.',
    f'POST {_SNAPSHOTS}')
UNMANAGE_SNAPSHOT = base.Rule(
    'snapshot_extension:snapshot_unmanage', base.ADMIN, 'Stop managing a snapshot without '
    'deleting the snapshot on its backend.',
    'POST /snapshots/{snapshot_id}/action (os-unmanage)')
