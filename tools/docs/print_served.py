#!/usr/bin/env python3
"""Print the tables of supported and unsupported operations of the Block Storage API.

The tables list the operations of Cinder 29. Tests compare them with the routes and with responses.
"""
import sys
from collections.abc import Iterator
from typing import NamedTuple

import print_api_reference
import rst
from blockattach.platform.http import operation
from blockattach.storage.api import routes

NEEDED = 'needed'
EXPECTED = 'expected'
RARE = 'rare'


class Part(NamedTuple):
    """Group of supported operations.

    :ivar operations: first microversion and name of each operation
    :ivar refused: reason for which the operations exist but are always rejected with 400
    """

    title: str
    importance: str
    operations: tuple[str, ...]
    refused: str = ''


class Left(NamedTuple):
    """Group of unsupported operations.

    :ivar operations: status of the response, first microversion and name of each operation
    """

    title: str
    importance: str
    operations: tuple[str, ...]
    why: str


SERVED = (
    Part('Discovery', NEEDED, (
        '3.0 GET /', '3.0 GET /v3', '3.0 GET /v3/', '3.0 GET /extensions',
        '3.0 GET /extensions/{id}')),
    Part('Volumes', NEEDED, (
        '3.0 GET /volumes', '3.0 GET /volumes/detail', '3.0 GET /volumes/{id}',
        '3.0 POST /volumes', '3.0 PUT /volumes/{id}', '3.0 DELETE /volumes/{id}',
        '3.0 GET /volumes/{id}/encryption', '3.0 GET /volumes/{id}/encryption/{key}')),
    Part('Volumes', EXPECTED, (
        '3.12 GET /volumes/summary', '3.33 GET /resource_filters')),
    Part('Volume metadata', EXPECTED, (
        '3.0 GET /volumes/{id}/metadata', '3.0 POST /volumes/{id}/metadata',
        '3.0 PUT /volumes/{id}/metadata', '3.0 GET /volumes/{id}/metadata/{key}',
        '3.0 PUT /volumes/{id}/metadata/{key}', '3.0 DELETE /volumes/{id}/metadata/{key}')),
    Part('Attachments', NEEDED, (
        '3.27 GET /attachments', '3.27 GET /attachments/detail', '3.27 GET /attachments/{id}',
        '3.27 POST /attachments', '3.27 PUT /attachments/{id}', '3.27 DELETE /attachments/{id}',
        '3.44 POST /attachments/{id}/action (os-complete)')),
    Part('Attaching (before 3.27)', NEEDED, (
        '3.0 POST /volumes/{id}/action (os-reserve)',
        '3.0 POST /volumes/{id}/action (os-unreserve)',
        '3.0 POST /volumes/{id}/action (os-initialize_connection)',
        '3.0 POST /volumes/{id}/action (os-terminate_connection)',
        '3.0 POST /volumes/{id}/action (os-attach)',
        '3.0 POST /volumes/{id}/action (os-detach)',
        '3.0 POST /volumes/{id}/action (os-force_detach)',
        '3.0 POST /volumes/{id}/action (os-begin_detaching)',
        '3.0 POST /volumes/{id}/action (os-roll_detaching)')),
    Part('Volume actions', NEEDED, (
        '3.0 POST /volumes/{id}/action (os-extend)',
        '3.0 POST /volumes/{id}/action (os-retype)',
        '3.0 POST /volumes/{id}/action (os-reset_status)',
        '3.0 POST /volumes/{id}/action (os-force_delete)',
        '3.0 POST /volumes/{id}/action (os-set_bootable)',
        '3.0 POST /volumes/{id}/action (os-update_readonly_flag)',
        '3.0 POST /volumes/{id}/action (os-show_image_metadata)',
        '3.0 POST /volumes/{id}/action (os-set_image_metadata)',
        '3.0 POST /volumes/{id}/action (os-unset_image_metadata)',
        '3.68 POST /volumes/{id}/action (os-reimage)')),
    Part('Volume actions', EXPECTED, (
        '3.0 POST /volumes/{id}/action (os-volume_upload_image)',
        '3.0 POST /volumes/{id}/action (os-migrate_volume)',
        '3.40 POST /volumes/{id}/action (revert)')),
    Part('Completion by a consumer', EXPECTED, (
        '3.0 POST /volumes/{id}/action (os-extend_volume_completion)',
        '3.0 POST /volumes/{id}/action (os-migrate_volume_completion)'),
        refused='no operation waits for a consumer'),
    Part('Volume types', NEEDED, (
        '3.0 GET /types', '3.0 GET /types/default', '3.0 GET /types/{id}', '3.0 POST /types',
        '3.0 PUT /types/{id}', '3.0 DELETE /types/{id}', '3.0 GET /types/{id}/extra_specs',
        '3.0 POST /types/{id}/extra_specs', '3.0 GET /types/{id}/extra_specs/{key}',
        '3.0 PUT /types/{id}/extra_specs/{key}', '3.0 DELETE /types/{id}/extra_specs/{key}')),
    Part('Volume type access', EXPECTED, (
        '3.0 GET /types/{id}/os-volume-type-access',
        '3.0 POST /types/{id}/action (addProjectAccess)',
        '3.0 POST /types/{id}/action (removeProjectAccess)')),
    Part('Volume type encryption', EXPECTED, (
        '3.0 GET /types/{id}/encryption', '3.0 POST /types/{id}/encryption',
        '3.0 GET /types/{id}/encryption/{key}', '3.0 PUT /types/{id}/encryption/{encryption_id}',
        '3.0 DELETE /types/{id}/encryption/{encryption_id}')),
    Part('Default types', EXPECTED, (
        '3.62 GET /default-types', '3.62 GET /default-types/{id}', '3.62 PUT /default-types/{id}',
        '3.62 DELETE /default-types/{id}')),
    Part('QoS specs', EXPECTED, (
        '3.0 GET /qos-specs', '3.0 POST /qos-specs', '3.0 GET /qos-specs/{id}',
        '3.0 PUT /qos-specs/{id}', '3.0 DELETE /qos-specs/{id}',
        '3.0 PUT /qos-specs/{id}/delete_keys', '3.0 GET /qos-specs/{id}/associations',
        '3.0 GET /qos-specs/{id}/associate', '3.0 GET /qos-specs/{id}/disassociate',
        '3.0 GET /qos-specs/{id}/disassociate_all')),
    Part('Limits', NEEDED, ('3.0 GET /limits', '3.0 GET /os-quota-sets/{id}')),
    Part('Quotas', EXPECTED, (
        '3.0 GET /os-quota-sets/{id}/defaults', '3.0 PUT /os-quota-sets/{id}',
        '3.0 DELETE /os-quota-sets/{id}', '3.0 GET /os-quota-class-sets/{id}',
        '3.0 PUT /os-quota-class-sets/{id}')),
    Part('Services', NEEDED, (
        '3.0 GET /os-services', '3.0 PUT /os-services/enable', '3.0 PUT /os-services/disable',
        '3.0 PUT /os-services/disable-log-reason', '3.0 PUT /os-services/freeze',
        '3.0 PUT /os-services/thaw', '3.32 PUT /os-services/get-log',
        '3.32 PUT /os-services/set-log')),
    Part('Failover', NEEDED, (
        '3.0 PUT /os-services/failover_host', '3.26 PUT /os-services/failover'),
        refused='no backend is replicated'),
    Part('Pools, backends and zones', NEEDED, (
        '3.0 GET /scheduler-stats/get_pools', '3.0 GET /capabilities/{host}',
        '3.0 GET /os-availability-zone')),
    Part('Hosts', RARE, ('3.0 GET /os-hosts', '3.0 GET /os-hosts/{host}')),
    Part('Clusters', RARE, (
        '3.7 GET /clusters', '3.7 GET /clusters/detail', '3.7 GET /clusters/{id}',
        '3.7 PUT /clusters/enable', '3.7 PUT /clusters/disable', '3.24 POST /workers/cleanup')),
    Part('Snapshots', NEEDED, (
        '3.0 GET /snapshots', '3.0 GET /snapshots/detail', '3.0 GET /snapshots/{id}',
        '3.0 POST /snapshots', '3.0 PUT /snapshots/{id}', '3.0 DELETE /snapshots/{id}',
        '3.0 POST /snapshots/{id}/action (os-reset_status)',
        '3.0 POST /snapshots/{id}/action (os-force_delete)',
        '3.0 POST /snapshots/{id}/action (os-update_snapshot_status)')),
    Part('Snapshot metadata', EXPECTED, (
        '3.0 GET /snapshots/{id}/metadata', '3.0 POST /snapshots/{id}/metadata',
        '3.0 PUT /snapshots/{id}/metadata', '3.0 GET /snapshots/{id}/metadata/{key}',
        '3.0 PUT /snapshots/{id}/metadata/{key}', '3.0 DELETE /snapshots/{id}/metadata/{key}')),
    Part('Transfers', EXPECTED, (
        '3.0 GET /os-volume-transfer', '3.0 GET /os-volume-transfer/detail',
        '3.0 GET /os-volume-transfer/{id}', '3.0 POST /os-volume-transfer',
        '3.0 POST /os-volume-transfer/{id}/accept', '3.0 DELETE /os-volume-transfer/{id}',
        '3.0 GET /volume-transfers', '3.0 GET /volume-transfers/detail',
        '3.0 GET /volume-transfers/{id}', '3.0 POST /volume-transfers',
        '3.0 POST /volume-transfers/{id}/accept', '3.0 DELETE /volume-transfers/{id}')),
    Part('Messages', NEEDED, (
        '3.3 GET /messages', '3.3 GET /messages/{id}', '3.3 DELETE /messages/{id}')),
    Part('Existing volumes and snapshots', RARE, (
        '3.8 GET /manageable_volumes', '3.8 GET /manageable_volumes/detail',
        '3.8 POST /manageable_volumes', '3.0 GET /os-volume-manage',
        '3.0 GET /os-volume-manage/detail', '3.0 POST /os-volume-manage',
        '3.0 POST /volumes/{id}/action (os-unmanage)',
        '3.8 GET /manageable_snapshots', '3.8 GET /manageable_snapshots/detail',
        '3.8 POST /manageable_snapshots', '3.0 GET /os-snapshot-manage',
        '3.0 GET /os-snapshot-manage/detail', '3.0 POST /os-snapshot-manage',
        '3.0 POST /snapshots/{id}/action (os-unmanage)')),
)
"""Groups of supported operations."""

LEFT = (
    Left('Backups', EXPECTED, (
        '200 3.0 GET /backups', '200 3.0 GET /backups/detail', '400 3.0 POST /backups',
        '404 3.0 GET /backups/{id}', '404 3.9 PUT /backups/{id}', '404 3.0 DELETE /backups/{id}',
        '404 3.0 POST /backups/{id}/restore', '404 3.0 GET /backups/{id}/export_record',
        '400 3.0 POST /backups/import_record',
        '404 3.0 POST /backups/{id}/action (os-reset_status)',
        '404 3.0 POST /backups/{id}/action (os-force_delete)'),
        'not implemented yet'),
    Left('Groups', RARE, (
        '200 3.13 GET /groups', '200 3.13 GET /groups/detail', '400 3.13 POST /groups',
        '404 3.13 GET /groups/{id}', '404 3.13 PUT /groups/{id}',
        '400 3.14 POST /groups/action (create-from-src)',
        '404 3.13 POST /groups/{id}/action (delete)',
        '404 3.20 POST /groups/{id}/action (reset_status)',
        '404 3.38 POST /groups/{id}/action (enable_replication)',
        '404 3.38 POST /groups/{id}/action (disable_replication)',
        '404 3.38 POST /groups/{id}/action (failover_replication)',
        '404 3.38 POST /groups/{id}/action (list_replication_targets)'),
        'not implemented: no backend supports consistent operations on several volumes'),
    Left('Group types', RARE, (
        '200 3.11 GET /group_types', '400 3.11 POST /group_types',
        '404 3.11 GET /group_types/{id}', '404 3.11 PUT /group_types/{id}',
        '404 3.11 DELETE /group_types/{id}', '404 3.11 GET /group_types/{id}/group_specs',
        '404 3.11 POST /group_types/{id}/group_specs',
        '404 3.11 GET /group_types/{id}/group_specs/{key}',
        '404 3.11 PUT /group_types/{id}/group_specs/{key}',
        '404 3.11 DELETE /group_types/{id}/group_specs/{key}'),
        'groups are not supported'),
    Left('Group snapshots', RARE, (
        '200 3.14 GET /group_snapshots', '200 3.14 GET /group_snapshots/detail',
        '400 3.14 POST /group_snapshots', '404 3.14 GET /group_snapshots/{id}',
        '404 3.14 PUT /group_snapshots/{id}', '404 3.14 DELETE /group_snapshots/{id}',
        '404 3.19 POST /group_snapshots/{id}/action (reset_status)'),
        'groups are not supported'),
    Left('Consistency groups (replaced by groups)', RARE, (
        '200 3.0 GET /consistencygroups', '200 3.0 GET /consistencygroups/detail',
        '400 3.0 POST /consistencygroups', '400 3.0 POST /consistencygroups/create_from_src',
        '404 3.0 GET /consistencygroups/{id}', '404 3.0 PUT /consistencygroups/{id}/update',
        '404 3.0 POST /consistencygroups/{id}/delete',
        '200 3.0 GET /cgsnapshots', '200 3.0 GET /cgsnapshots/detail', '400 3.0 POST /cgsnapshots',
        '404 3.0 GET /cgsnapshots/{id}', '404 3.0 DELETE /cgsnapshots/{id}'),
        'groups are not supported'),
    Left('Hosts', RARE, ('404 3.0 PUT /os-hosts/{host}',),
         'use ``PUT /os-services/enable`` and ``disable`` instead'),
)
"""Groups of unsupported operations. Lists with status 200 are empty."""


def delivered() -> Iterator[tuple[Part, str, str]]:
    """Yield the group, first microversion and name of each operation in `SERVED`."""
    for part in SERVED:
        for one in part.operations:
            since, _, name = one.partition(' ')
            yield part, since, name


def left() -> Iterator[tuple[Left, int, str, str]]:
    """Yield the group, status, first microversion and name of each operation in `LEFT`."""
    for part in LEFT:
        for one in part.operations:
            status, since, name = one.split(' ', 2)
            yield part, int(status), since, name


def _named(name: str, rows: dict[str, operation.Operation]) -> str:
    if name not in rows:
        return rst.literal(name)
    return f':ref:`{name} <{print_api_reference.REFERENCE.label(rows[name])}>`'


def document() -> str:
    """Return both tables, which doc/source/user/served.rst includes."""
    rows = {row.name: row for row in routes.operations()}
    offered, others = list(delivered()), list(left())
    acting = sum(not part.refused for part, _, _ in offered)
    return ''.join((
        rst.NOTICE, f'\n{acting} operations are supported, {len(offered) - acting} exist but '
        f'are always rejected, and {len(others)} are not supported.\n',
        rst.heading('Supported operations', '-'),
        rst.table(('operation', 'since', 'group', 'importance', 'status'), [
            (_named(name, rows), since, part.title, part.importance,
             f'rejected (400): {part.refused}' if part.refused else 'supported')
            for part, since, name in offered], (40, 8, 22, 12, 18)),
        rst.heading('Unsupported operations', '-'),
        rst.table(('operation', 'since', 'importance', 'response', 'reason'), [
            (_named(name, rows), since, part.importance,
             'an empty list' if status < 400 else str(status), part.why)
            for part, status, since, name in others], (40, 8, 12, 14, 26)),
    ))


if __name__ == '__main__':
    sys.stdout.write(document())
