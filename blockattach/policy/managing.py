"""Who may take over what lies on backends already, and leave it there. The names are Cinder's."""
from blockattach.policy import base

_VOLUMES, _SNAPSHOTS = '/manageable_volumes', '/manageable_snapshots'

LIST_VOLUMES = base.Rule(
    'volume_extension:list_manageable', base.ADMIN, 'List what lies on a backend that could be '
    'volumes.', f'GET {_VOLUMES}', f'GET {_VOLUMES}/detail')
MANAGE_VOLUME = base.Rule(
    'volume_extension:volume_manage', base.ADMIN, 'Make a volume of what lies on a backend '
    'already.', f'POST {_VOLUMES}')
UNMANAGE_VOLUME = base.Rule(
    'volume_extension:volume_unmanage', base.ADMIN, 'Leave a volume to its backend.',
    'POST /volumes/{volume_id}/action (os-unmanage)')
LIST_SNAPSHOTS = base.Rule(
    'snapshot_extension:list_manageable', base.ADMIN, 'List what lies on a backend that could be '
    'snapshots.', f'GET {_SNAPSHOTS}', f'GET {_SNAPSHOTS}/detail')
MANAGE_SNAPSHOT = base.Rule(
    'snapshot_extension:snapshot_manage', base.ADMIN, 'Make a snapshot of what lies on a backend '
    'already.', f'POST {_SNAPSHOTS}')
UNMANAGE_SNAPSHOT = base.Rule(
    'snapshot_extension:snapshot_unmanage', base.ADMIN, 'Leave a snapshot to its backend.',
    'POST /snapshots/{snapshot_id}/action (os-unmanage)')
