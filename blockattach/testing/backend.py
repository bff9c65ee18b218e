"""A backend in memory, put together without entry points; its faults can be planned."""
from blockattach.conf import backend as backend_conf
from blockattach.drivers import loading
from blockattach.drivers.stores import fake as fake_store
from blockattach.drivers.targets import fake as fake_target
from blockattach.volume import backends


class FakeBackend(backends.KeptBackend):
    """What a volume manager keeps; ``fake_store`` and ``fake_target`` take faults."""

    def __init__(self, name: str = 'fake') -> None:
        settings = backend_conf.BackendSettings(
            name=name, state_dir='/nonexistent', volume_backend_name=name, store='fake',
            target='fake', pool_name='pool', volumes_dir='/nonexistent',
            target_ip_address='127.0.0.1', target_port=3260,
            target_prefix='iqn.2010-10.org.openstack:', tgt_socket=None, reserved_percentage=0,
            max_over_subscription_ratio=1.0)
        self.fake_store = fake_store.FakeStore(settings)
        self.fake_target = fake_target.FakeTarget(settings)
        super().__init__(loading.Backend(name, settings, self.fake_store, self.fake_target))
