"""Volumes as logical volumes of one volume group: thin in a pool, or thick.

Names are Cinder's, so that operators find what they know and a deployment can be taken over:

========================  =======================================================================
name                      is
========================  =======================================================================
``volume-<uuid>``         a volume
``_snapshot-<uuid>``      a snapshot; LVM keeps names in ``snapshot`` for itself
``_unfinished-<uuid>``    the volume of this id while it is cloned or reverted
``_source-<uuid>``        what the thick volume of this id is copied from
``deleted-<uuid>-<hex>``  what waits to be wiped, or was replaced
========================  =======================================================================

Each carries the tag ``blockattach`` from its first moment. What does not is another's: it is never
changed and never listed, and counts only as room that is used.
"""
from blockattach.storage.conf import backend
from blockattach.storage.drivers.stores.lvm import store
from blockattach.storage.drivers.stores.lvm import thick
from blockattach.storage.drivers.stores.lvm import thin


def load(settings: backend.BackendSettings) -> store.LvmStore:
    """The entry point ``lvm``: what a store can do follows from its class, so there are two."""
    if settings.lvm is not None and settings.lvm.lvm_type == 'thick':
        return thick.ThickStore(settings)
    return thin.ThinStore(settings)
