"""The ordered history of the API: every version, in a sentence.

``HISTORY`` is the Block Storage API's own; its numbers belong to it, so what goes beyond has the
history ``EXTENSION_HISTORY`` of its own, negotiated as ``blockattach`` in the same header.
A version about something that this service lacks changes nothing here.
"""
from blockattach.http.operation import V

UPDATED = '2026-11-20T00:00:00Z'
"""When the newest version was added, for version discovery."""

HISTORY = (
    (V(3, 0), 'The base: what the API was before it had versions; a request that names none.'),
    (V(3, 1), 'Uploading a volume to an image takes visibility and protected.'),
    (V(3, 2), 'Filters by truth values are strict: a value that is none is an error.'),
    (V(3, 3), 'User messages: list, show, delete.'),
    (V(3, 4), 'Volumes are filtered by glance_metadata.'),
    (V(3, 5), 'User messages are paged, sorted and filtered.'),
    (V(3, 6), 'A consistency group may be left without name and description.'),
    (V(3, 7), 'Clusters, and the cluster of a service.'),
    (V(3, 8), 'Manageable volumes and snapshots.'),
    (V(3, 9), 'Backups are updated.'),
    (V(3, 10), 'Volumes are filtered by group_id.'),
    (V(3, 11), 'Group types and their specs.'),
    (V(3, 12), 'The summary of volumes.'),
    (V(3, 13), 'Groups, and the group_id of a volume.'),
    (V(3, 14), 'Group snapshots, and the group_snapshot_id of a snapshot.'),
    (V(3, 15), 'Metadata of a volume carries an ETag, and writing it can be conditional.'),
    (V(3, 16), 'Migrating and managing a volume takes a cluster.'),
    (V(3, 17), 'Manageable volumes and snapshots are listed by cluster.'),
    (V(3, 18), 'A backup shows its project.'),
    (V(3, 19), 'The status of a group snapshot is reset.'),
    (V(3, 20), 'The status of a group is reset.'),
    (V(3, 21), 'A volume shows its provider_id to administrators.'),
    (V(3, 22), 'Snapshots are filtered by metadata.'),
    (V(3, 23), 'A volume is deleted by force with a parameter.'),
    (V(3, 24), 'Cleaning up what workers left.'),
    (V(3, 25), 'A group shows its volumes.'),
    (V(3, 26), 'Clusters fail over, freeze and thaw, and show their replication.'),
    (V(3, 27), 'Attachments: list, show, create, update, delete.'),
    (V(3, 28), 'Pools are filtered.'),
    (V(3, 29), 'Group snapshots are filtered, sorted and paged.'),
    (V(3, 30), 'Snapshots are sorted by name.'),
    (V(3, 31), 'An unknown filter is an error for users; which are known is configured.'),
    (V(3, 32), 'Log levels of services are read and set.'),
    (V(3, 33), 'Which filters there are is listed.'),
    (V(3, 34), 'A filter with ~ behind its name finds what contains the text.'),
    (V(3, 35), 'Pools are filtered by volume_type.'),
    (V(3, 36), 'The summary of volumes has their metadata.'),
    (V(3, 37), 'Backups are sorted by name.'),
    (V(3, 38), 'Groups are replicated.'),
    (V(3, 39), 'Limits are shown to administrators for another project.'),
    (V(3, 40), 'A volume is reverted to its latest snapshot.'),
    (V(3, 41), 'A snapshot shows its user_id.'),
    (V(3, 42), 'A volume in use is extended.'),
    (V(3, 43), 'Backups have metadata.'),
    (V(3, 44), 'An attachment is completed.'),
    (V(3, 45), 'Lists of volumes, snapshots and backups have a count (with_count).'),
    (V(3, 46), 'A volume from an image that is a snapshot is made from that snapshot.'),
    (V(3, 47), 'A volume is made from a backup.'),
    (V(3, 48), 'A volume shows shared_targets and service_uuid.'),
    (V(3, 49), 'A service shows the state of its backend.'),
    (V(3, 50), 'Says that volumes can be attached several times; no body changes.'),
    (V(3, 51), 'A backup is restored into another availability zone.'),
    (V(3, 52), 'Volume types are filtered by extra specs.'),
    (V(3, 53), 'Unknown keys in creating a volume, and an update of nothing, are errors.'),
    (V(3, 54), 'An attachment is created with a mode.'),
    (V(3, 55), 'Transfers take snapshots along.'),
    (V(3, 56), 'A backup shows its user_id.'),
    (V(3, 57), 'A transfer shows its projects and whether it was accepted.'),
    (V(3, 58), 'Groups and group snapshots show their project.'),
    (V(3, 59), 'Transfers are paged.'),
    (V(3, 60), 'Volumes are filtered by comparing times.'),
    (V(3, 61), 'A volume shows its cluster to administrators.'),
    (V(3, 62), 'A project has a default volume type of its own.'),
    (V(3, 63), 'A volume shows its volume_type_id.'),
    (V(3, 64), 'Volumes and backups show their encryption_key_id.'),
    (V(3, 65), 'Volumes and snapshots show consumes_quota.'),
    (V(3, 66), 'A snapshot of a volume in use needs no force.'),
    (V(3, 67), 'The project may be left out of URLs.'),
    (V(3, 68), 'A volume is made anew from an image.'),
    (V(3, 69), 'shared_targets may be null.'),
    (V(3, 70), 'Encrypted volumes are transferred.'),
    (V(3, 71), 'Extending a volume in use is completed by the consumer.'),
)

EXTENSION_HISTORY = (
    (V(1, 0), 'More on attachments: project, host, what they share; by host; deleted by force.'),
    (V(1, 1), 'An attachment shows what its host has reserved.'),
    (V(1, 2), 'A volume service shows what it has repaired.'),
    (V(1, 3), 'Quotas of attachments are shown and set.'),
    (V(1, 4), 'The history of an attachment, an explanation of it, and a dry run of a new one.'),
    (V(1, 5), 'Attachments are watched: a stream of what happens to them.'),
    (V(1, 6), 'Why a pool would not take a volume; a backend is reconciled on request.'),
    (V(1, 7), 'The history of all attachments of a volume, also of those that are gone.'),
)

MINIMUM = HISTORY[0][0]
MAXIMUM = HISTORY[-1][0]
EXTENSION_MINIMUM = EXTENSION_HISTORY[0][0]
EXTENSION_MAXIMUM = EXTENSION_HISTORY[-1][0]
