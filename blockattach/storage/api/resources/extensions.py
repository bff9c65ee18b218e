"""API extensions: a list by which clients find out which optional parts of the API exist.

An extension is listed only if this service has the operation in `Extension.by`.
"""
import re
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services

_VARIABLE = re.compile(r'{\w+}')


class Extension(NamedTuple):
    """Extension of the API.

    :ivar updated: date of the extension in Cinder
    :ivar by: name of an operation of the extension. The extension is listed if this service has
        the operation.
    """

    alias: str
    name: str
    updated: str
    description: str
    by: str


# All extensions of Cinder, including those about features that this service lacks.
EXTENSIONS = tuple(Extension(alias, name, f'{day}T00:00:00+00:00', description, by)
                   for alias, name, day, description, by in (
    ('OS-SCH-HNT', 'SchedulerHints', '2013-04-18',
     'Scheduler hints for the placement of volumes.', 'POST /volumes'),
    ('backups', 'Backups', '2012-12-12', 'Backups of volumes.', 'POST /backups/{id}/restore'),
    ('capabilities', 'Capabilities', '2015-08-31', 'Capabilities of backends.',
     'GET /capabilities/{host}'),
    ('cgsnapshots', 'Cgsnapshots', '2014-08-18', 'Snapshots of consistency groups.',
     'POST /cgsnapshots/{id}'),
    ('consistencygroups', 'Consistencygroups', '2014-08-18', 'Consistency groups.',
     'POST /consistencygroups/{id}/delete'),
    ('encryption', 'VolumeTypeEncryption', '2013-07-01', 'Encryption of volume types.',
     'POST /types/{id}/encryption'),
    ('os-admin-actions', 'AdminActions', '2012-08-25', 'Administrative actions on volumes.',
     'POST /volumes/{id}/action (os-reset_status)'),
    ('os-availability-zone', 'AvailabilityZones', '2013-06-27', 'Availability zones.',
     'GET /os-availability-zone'),
    ('os-extended-services', 'ExtendedServices', '2014-01-10',
     'Reason why a service is disabled.', 'PUT /os-services/disable-log-reason'),
    ('os-extended-snapshot-attributes', 'ExtendedSnapshotAttributes', '2012-06-19',
     'Project and progress of snapshots.', 'GET /snapshots/{id}'),
    ('os-hosts', 'Hosts', '2011-06-29', 'Hosts of services, for administrators.',
     'GET /os-hosts'),
    ('os-quota-class-sets', 'QuotaClasses', '2012-03-12', 'Quota classes.',
     'PUT /os-quota-class-sets/{id}'),
    ('os-quota-sets', 'Quotas', '2011-08-08', 'Quotas of projects.', 'PUT /os-quota-sets/{id}'),
    ('os-services', 'Services', '2012-10-28', 'Services, for administrators.',
     'GET /os-services'),
    ('os-snapshot-actions', 'SnapshotActions', '2013-07-16', 'Actions on snapshots.',
     'POST /snapshots/{id}/action (os-update_snapshot_status)'),
    ('os-snapshot-manage', 'SnapshotManage', '2014-12-31',
     'Manage existing snapshots on a backend.', 'POST /os-snapshot-manage'),
    ('os-snapshot-unmanage', 'SnapshotUnmanage', '2014-12-31',
     'Unmanage snapshots.', 'POST /snapshots/{id}/action (os-unmanage)'),
    ('os-types-extra-specs', 'TypesExtraSpecs', '2011-08-24', 'Extra specs of volume types.',
     'POST /types/{id}/extra_specs'),
    ('os-types-manage', 'TypesManage', '2011-08-24', 'Create, update and delete volume types.',
     'POST /types'),
    ('os-used-limits', 'UsedLimits', '2013-10-03', 'Limits of a project and their usage.',
     'GET /limits'),
    ('os-vol-host-attr', 'VolumeHostAttribute', '2011-11-03', 'Pool of a volume.',
     'GET /volumes/{id}'),
    ('os-vol-image-meta', 'VolumeImageMetadata', '2012-12-07',
     'Metadata of the image that a volume was created from.',
     'POST /volumes/{id}/action (os-set_image_metadata)'),
    ('os-vol-mig-status-attr', 'VolumeMigStatusAttribute', '2013-08-08',
     'Migration status of a volume.', 'GET /volumes/{id}'),
    ('os-vol-tenant-attr', 'VolumeTenantAttribute', '2011-11-03',
     'Project of a volume.', 'GET /volumes/{id}'),
    ('os-volume-actions', 'VolumeActions', '2012-05-31', 'Actions on volumes.',
     'POST /volumes/{id}/action (os-attach)'),
    ('os-volume-encryption-metadata', 'VolumeEncryptionMetadata', '2013-07-10',
     'Encryption metadata of a volume.', 'GET /volumes/{id}/encryption'),
    ('os-volume-manage', 'VolumeManage', '2014-02-10',
     'Manage existing volumes on a backend.', 'POST /os-volume-manage'),
    ('os-volume-transfer', 'VolumeTransfer', '2013-05-29',
     'Transfers of volumes between projects.', 'POST /os-volume-transfer'),
    ('os-volume-type-access', 'VolumeTypeAccess', '2014-06-26',
     'Project access to private volume types.',
     'POST /types/{id}/action (addProjectAccess)'),
    ('os-volume-unmanage', 'VolumeUnmanage', '2012-05-31', 'Unmanage volumes.',
     'POST /volumes/{id}/action (os-unmanage)'),
    ('qos-specs', 'Qos_specs_manage', '2013-08-02', 'QoS specs.', 'POST /qos-specs'),
    ('scheduler-stats', 'Scheduler_stats', '2014-09-07', 'Capabilities and capacity of pools.',
     'GET /scheduler-stats/get_pools'),
))

_EXTENSION = schema.View({
    'alias': answers.TEXT,
    'name': answers.TEXT,
    'description': answers.TEXT,
    'updated': answers.TEXT,
    'links': (schema.array(schema.obj(), maxItems=0), lambda extension: []),
})


def operations(served: Iterable[operation.Operation]) -> tuple[operation.Operation, ...]:
    """Return the operations that list and show the supported extensions.

    :param served: all other operations of the API
    """
    # The names of path variables are not compared. Operations that ``blockattach`` adds belong to
    # none of Cinder's extensions.
    names = {_VARIABLE.sub('{}', row.name) for row in served if row.extension is None}
    shown = {one.alias: _EXTENSION.show(one) for one in EXTENSIONS
             if _VARIABLE.sub('{}', one.by) in names}

    def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        return {'extensions': list(shown.values())}

    def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        if call.path['id'] not in shown:
            raise errors.NotFound()
        return {'extension': shown[call.path['id']]}

    return (
        operation.Operation(
            'GET', '/extensions', index,
            answer={operation.BASE: schema.wrapped('extensions', schema.array(_EXTENSION.whole))},
            summary='List known API extensions.'),
        operation.Operation(
            'GET', '/extensions/{id}', show,
            answer={operation.BASE: schema.wrapped('extension', _EXTENSION.whole)},
            faults=(errors.NotFound,), summary='Show an API extension.'),
    )
