"""Version history of the API.

``HISTORY`` contains the microversions of the Block Storage API, which OpenStack defines. Additions
of this project have versions of their own in ``EXTENSION_HISTORY``. Clients negotiate them with
the service name ``blockattach`` in the same header.

If this service does not support the feature that a microversion adds, the keys that the
microversion adds to responses have constant values.
"""
from blockattach.platform.http.operation import V

UPDATED = '2026-11-20T00:00:00Z'
"""Time at which the newest version was added, for version discovery."""

HISTORY = (
    (V(3, 0), 'Initial version, which applies to requests without a version.'),
    (V(3, 1), 'Add visibility and protected to the action os-volume_upload_image.'),
    (V(3, 2), 'Reject invalid values of boolean filters.'),
    (V(3, 3), 'Add user messages.'),
    (V(3, 4), 'Add the filter glance_metadata to lists of volumes.'),
    (V(3, 5), 'Add pagination, sorting and filters to lists of user messages.'),
    (V(3, 6), 'Allow consistency groups with an empty name and description.'),
    (V(3, 7), 'Add clusters, and the cluster of a service.'),
    (V(3, 8), 'Add manageable volumes and snapshots.'),
    (V(3, 9), 'Add updates of backups.'),
    (V(3, 10), 'Add the filter group_id to lists of volumes.'),
    (V(3, 11), 'Add group types and group specs.'),
    (V(3, 12), 'Add the volumes summary.'),
    (V(3, 13), 'Add groups, and group_id to volumes.'),
    (V(3, 14), 'Add group snapshots, and group_snapshot_id to snapshots.'),
    (V(3, 15), 'Add ETag to the metadata of volumes, and conditional updates.'),
    (V(3, 16), 'Add cluster to requests that migrate or manage a volume.'),
    (V(3, 17), 'Add the filter cluster to lists of manageable volumes and snapshots.'),
    (V(3, 18), 'Add the project to backups.'),
    (V(3, 19), 'Add the action reset_status to group snapshots.'),
    (V(3, 20), 'Add the action reset_status to groups.'),
    (V(3, 21), 'Add provider_id to volumes, for administrators.'),
    (V(3, 22), 'Add the filter metadata to lists of snapshots.'),
    (V(3, 23), 'Add the parameter force to the deletion of volumes.'),
    (V(3, 24), 'Add cleanup of workers.'),
    (V(3, 25), 'Add the volumes of a group to group details.'),
    (V(3, 26), 'Add failover, freeze and thaw of clusters, and their replication status.'),
    (V(3, 27), 'Add attachments of volumes.'),
    (V(3, 28), 'Add filters to lists of pools.'),
    (V(3, 29), 'Add pagination, sorting and filters to lists of group snapshots.'),
    (V(3, 30), 'Add sorting by name to lists of snapshots.'),
    (V(3, 31), 'Reject unknown filters of users. The known filters are configurable.'),
    (V(3, 32), 'Add log levels of services.'),
    (V(3, 33), 'Add resource filters.'),
    (V(3, 34), 'Add filters with ~ after the name, which match substrings.'),
    (V(3, 35), 'Add the filter volume_type to lists of pools.'),
    (V(3, 36), 'Add metadata to the volumes summary.'),
    (V(3, 37), 'Add sorting by name to lists of backups.'),
    (V(3, 38), 'Add replication of groups.'),
    (V(3, 39), 'Add limits of other projects, for administrators.'),
    (V(3, 40), 'Add the action revert, which reverts a volume to its latest snapshot.'),
    (V(3, 41), 'Add user_id to snapshots.'),
    (V(3, 42), 'Allow extending volumes in use.'),
    (V(3, 43), 'Add metadata to backups.'),
    (V(3, 44), 'Add the action os-complete to attachments.'),
    (V(3, 45), 'Add the parameter with_count to lists of volumes, snapshots and backups.'),
    (V(3, 46), 'Create volumes from a snapshot that an image refers to.'),
    (V(3, 47), 'Add backup_id to requests that create a volume.'),
    (V(3, 48), 'Add shared_targets and service_uuid to volumes.'),
    (V(3, 49), 'Add backend_state to services.'),
    (V(3, 50), 'Announce multiattach. No request or response changes.'),
    (V(3, 51), 'Add availability_zone to requests that restore a backup.'),
    (V(3, 52), 'Add the filter extra_specs to lists of volume types.'),
    (V(3, 53), 'Reject unknown keys in requests that create a volume, and empty updates.'),
    (V(3, 54), 'Add mode to requests that create an attachment.'),
    (V(3, 55), 'Add snapshots to volume transfers.'),
    (V(3, 56), 'Add user_id to backups.'),
    (V(3, 57), 'Add projects and the acceptance status to volume transfers.'),
    (V(3, 58), 'Add the project to groups and group snapshots.'),
    (V(3, 59), 'Add pagination to lists of volume transfers.'),
    (V(3, 60), 'Add comparison operators to time filters in lists of volumes.'),
    (V(3, 61), 'Add cluster_name to volumes, for administrators.'),
    (V(3, 62), 'Add default volume types of projects.'),
    (V(3, 63), 'Add volume_type_id to volumes.'),
    (V(3, 64), 'Add encryption_key_id to volumes and backups.'),
    (V(3, 65), 'Add consumes_quota to volumes and snapshots.'),
    (V(3, 66), 'Allow snapshots of volumes in use without force.'),
    (V(3, 67), 'Allow URLs without a project ID.'),
    (V(3, 68), 'Add the action os-reimage to volumes.'),
    (V(3, 69), 'Allow null as the value of shared_targets.'),
    (V(3, 70), 'Allow transfers of encrypted volumes.'),
    (V(3, 71), 'Let the consumer complete extending a volume in use.'),
)

# Additions have their own numbers, because OpenStack may assign 3.72 to another change.
EXTENSION_HISTORY = (
    (V(1, 0), 'Add project, host and shared connections to attachments, a host filter and force.'),
    (V(1, 1), 'Add reservation to attachments.'),
    (V(1, 2), 'Add reconciled to volume services.'),
    (V(1, 3), 'Add quotas of attachments.'),
    (V(1, 4), 'Add history and explanation of attachments, and a dry run of their creation.'),
    (V(1, 5), 'Add a stream of attachment events.'),
    (V(1, 6), 'Add explanations of pool selection, and the request to reconcile a backend.'),
    (V(1, 7), 'Add the history of all attachments of a volume.'),
)

MINIMUM = HISTORY[0][0]
MAXIMUM = HISTORY[-1][0]
EXTENSION_MINIMUM = EXTENSION_HISTORY[0][0]
EXTENSION_MAXIMUM = EXTENSION_HISTORY[-1][0]
