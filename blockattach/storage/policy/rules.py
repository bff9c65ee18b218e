"""Modules with policy rules, and the table of verbs that compare the authorized project again."""
from collections.abc import Mapping

from blockattach.storage.policy import attachments
from blockattach.storage.policy import clusters
from blockattach.storage.policy import default_types
from blockattach.storage.policy import managing
from blockattach.storage.policy import messages
from blockattach.storage.policy import not_offered
from blockattach.storage.policy import qos_specs
from blockattach.storage.policy import quotas
from blockattach.storage.policy import services
from blockattach.storage.policy import snapshots
from blockattach.storage.policy import transfers
from blockattach.storage.policy import volume_types
from blockattach.storage.policy import volumes

NOUNS = (attachments, clusters, default_types, managing, messages, not_offered, qos_specs, quotas,
         services, snapshots, transfers, volume_types, volumes)

VOLUME, SNAPSHOT, BOTH = 'volume', 'snapshot', 'volume and snapshot'
JUDGED_VERBS: Mapping[str, str] = {
    'attachments.reserve': VOLUME,
    'detaches.announce': VOLUME,
    'detaches.cancel': VOLUME,
    'extending.start': VOLUME,
    'moving.migrate': VOLUME,
    'moving.retype': VOLUME,
    'resets.reset_status': VOLUME,
    'reverts.start': BOTH,
    'snapshots.change_metadata': SNAPSHOT,
    'snapshots.create': VOLUME,
    'snapshots.reset_status': SNAPSHOT,
    'snapshots.start_delete': SNAPSHOT,
    'snapshots.state_status': SNAPSHOT,
    'snapshots.unmanage': SNAPSHOT,
    'snapshots.update': SNAPSHOT,
    'transfers.create': VOLUME,
    'unmanaging.start': VOLUME,
    'volume_images.start_reimage': VOLUME,
    'volume_images.start_upload': VOLUME,
    'volumes.change_image_metadata': VOLUME,
    'volumes.change_metadata': VOLUME,
    'volumes.create': BOTH,
    'volumes.set_readonly': VOLUME,
    'volumes.start_delete': VOLUME,
    'volumes.update': VOLUME,
}
"""Verbs of `blockattach.storage.db` that compare the authorized project again, and the rows on
which they do so.

A request is authorized for a volume or a snapshot before its transaction begins. Until that
transaction locks the row, others may transfer, retype, reset or delete the volume. Each of these
verbs therefore compares the project again under the lock (`volume_rows.lock_judged`,
`snapshot_rows.lock_judged`) and updates the row on condition that it is as read (`rows.update`). A
locking read alone is not enough: in a multi-writer database, other nodes see only what a
transaction has written.

The names are those of failpoints: ``db.<verb>.before`` is between authorization and transaction.
"""
