"""From the configured kind of volumes to the store that keeps them."""
from blockattach.conf import backend
from blockattach.drivers.stores.lvm import store
from blockattach.drivers.stores.lvm import thick
from blockattach.drivers.stores.lvm import thin


def load(settings: backend.BackendSettings) -> store.LvmStore:
    """The entry point ``lvm``: what a store can do follows from its class, so there are two."""
    if settings.lvm is not None and settings.lvm.lvm_type == 'thick':
        return thick.ThickStore(settings)
    return thin.ThinStore(settings)
