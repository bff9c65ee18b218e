"""Backend settings for driver tests, and an in-memory backend with planned faults."""
import dataclasses
import os
from typing import Any

from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.storage.volume import backends


def settings(folder: str, **changes: Any) -> backend_conf.BackendSettings:
    """Return driver settings with defaults, and with all files in one directory.

    :param changes: fields of `BackendSettings` to replace
    """
    return dataclasses.replace(backend_conf.BackendSettings(
        name='tested', state_dir=folder, volume_backend_name='tested', store='file',
        target='tgt', pool_name='tested', volumes_dir=os.path.join(folder, 'volumes'),
        target_ip_address='127.0.0.1', target_port=3260,
        target_prefix='iqn.2010-10.org.openstack:', tgt_socket=None, reserved_percentage=0,
        max_over_subscription_ratio=20.0), **changes)


class FakeBackend(backends.KeptBackend):
    """In-memory backend of a volume manager.

    :ivar fake_store: store, in whose ``faults`` a test plans faults
    :ivar fake_target: target, in whose ``faults`` a test plans faults
    :ivar loaded: store and target as `blockattach.wiring.volume` expects them
    """

    def __init__(self, name: str = 'fake',
                 target: type[fake_target.FakeTarget] = fake_target.FakeTarget) -> None:
        chosen = settings('/nonexistent', name=name, volume_backend_name=name, store='fake',
                          target='fake', pool_name='pool', max_over_subscription_ratio=1.0)
        self.fake_store = fake_store.FakeStore(chosen)
        self.fake_target = target(chosen)
        self.loaded = loading.Backend(name, chosen, self.fake_store, self.fake_target)
        super().__init__(self.loaded)
