"""Settings of a backend for tests of drivers, and a backend in memory, put together without entry
points, whose faults can be planned.
"""
import dataclasses
import os
from typing import Any

from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.storage.volume import backends


def settings(folder: str, **changes: Any) -> backend_conf.BackendSettings:
    """Settings of a driver: all defaults, and its files in a folder.

    :param changes: fields of `BackendSettings` that a test wants otherwise
    """
    return dataclasses.replace(backend_conf.BackendSettings(
        name='tested', state_dir=folder, volume_backend_name='tested', store='file',
        target='tgt', pool_name='tested', volumes_dir=os.path.join(folder, 'volumes'),
        target_ip_address='127.0.0.1', target_port=3260,
        target_prefix='iqn.2010-10.org.openstack:', tgt_socket=None, reserved_percentage=0,
        max_over_subscription_ratio=20.0), **changes)


class FakeBackend(backends.KeptBackend):
    """What a volume manager keeps; ``fake_store`` and ``fake_target`` take faults.

    ``loaded`` has both in the form of `blockattach.wiring.volume`.
    """

    def __init__(self, name: str = 'fake',
                 target: type[fake_target.FakeTarget] = fake_target.FakeTarget) -> None:
        chosen = settings('/nonexistent', name=name, volume_backend_name=name, store='fake',
                          target='fake', pool_name='pool', max_over_subscription_ratio=1.0)
        self.fake_store = fake_store.FakeStore(chosen)
        self.fake_target = target(chosen)
        self.loaded = loading.Backend(name, chosen, self.fake_store, self.fake_target)
        super().__init__(self.loaded)
