"""Modules with policy rules, and the database functions that check the project of a row again."""
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
"""Functions of `blockattach.storage.db` that check the project again, and the checked rows.

A request is authorized for the project of a volume or a snapshot before the transaction of the
request begins. Before this transaction locks the row, other requests may transfer, retype, reset
or delete the volume. Each function in the table therefore compares the project of the locked row
with the authorized project (`volume_rows.lock_judged`, `snapshot_rows.lock_judged`). The function
updates the row only if the row is unchanged since it was read (`rows.update`), because in a
multi-writer database, other nodes do not see the lock.

The failpoint ``db.<name>.before`` of each function is between authorization and transaction.
"""
