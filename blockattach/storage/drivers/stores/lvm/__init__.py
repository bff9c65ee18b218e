"""Store of thin or thick logical volumes in one LVM volume group.

Volumes and snapshots have the names that Cinder gives them, so that operators recognize them and a
Cinder deployment can be taken over:

========================  =======================================================================
name                      logical volume
========================  =======================================================================
``volume-<uuid>``         a volume
``_snapshot-<uuid>``      a snapshot; LVM reserves names that begin with ``snapshot``
``_unfinished-<uuid>``    new content of the volume with this id during a clone or revert
``_source-<uuid>``        snapshot from which the thick volume with this id is copied
``deleted-<uuid>-<hex>``  a deleted volume or snapshot that waits for its wipe, or a volume that
                          a revert has replaced
========================  =======================================================================

Each of these logical volumes has the tag ``blockattach`` from its creation on. A logical volume
without the tag belongs to another program. The store changes such a volume only on a manage
request, and counts the volume only as used space.
"""
from blockattach.storage.conf import backend
from blockattach.storage.drivers.stores.lvm import store
from blockattach.storage.drivers.stores.lvm import thick
from blockattach.storage.drivers.stores.lvm import thin


def load(settings: backend.BackendSettings) -> store.LvmStore:
    """Create the store of the configured ``lvm_type`` (entry point ``lvm``).

    The thin and the thick store are separate classes, because capabilities are derived from the
    class.
    """
    if settings.lvm is not None and settings.lvm.lvm_type == 'thick':
        return thick.ThickStore(settings)
    return thin.ThinStore(settings)
