"""Contracts and planned faults of the fake drivers."""
import dataclasses
import threading
from collections.abc import Sequence

from blockattach.conformance import store
from blockattach.conformance import target
from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import faults
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.conformance import settings


class FakeStoreTest(store.StoreContract):
    has_bytes = False

    def make(self) -> fake_store.FakeStore:
        self.fake = fake_store.FakeStore(settings.settings('/nowhere'))
        return self.fake

    def size_gb(self, volume: base.StoredVolume) -> float:
        return self.fake.sizes()[volume.name]

    def test_planned_faults_of_create_raised(self) -> None:
        volume = self.volume()
        self.fake.faults.plan('create', faults.Fault.REFUSED)
        self.fake.faults.plan('create', faults.Fault.FULL)
        self.fake.faults.plan('create', faults.Fault.UNCERTAIN_BEFORE)
        for kind in (errors.BackendRefused, errors.BackendFull, errors.BackendUncertain):
            with self.assertRaises(kind):
                self.fake.create(volume)
            self._assert_absent(volume)
        self.fake.faults.plan('create', faults.Fault.UNCERTAIN_AFTER)
        with self.assertRaises(errors.BackendUncertain):
            self.fake.create(volume)
        self.assertEqual(1, self.size_gb(volume))
        self.fake.create(volume)
        self.assertEqual(5, self.fake.faults.calls['create'])

    def test_held_create_blocks_until_released(self) -> None:
        volume = self.volume()
        go_on = self.fake.faults.hold('create')
        creator = threading.Thread(target=self.fake.create, args=(volume,))
        creator.start()
        self._assert_absent(volume)
        go_on.set()
        creator.join()
        self.assertEqual(1, self.size_gb(volume))


class FakeTargetTest(target.TargetContract):
    def make(self) -> fake_target.FakeTarget:
        if not hasattr(self, 'fake'):
            self.fake = fake_target.FakeTarget(dataclasses.replace(
                settings.settings('/nowhere'),
                target_secondary_ip_addresses=('127.0.0.2', '::1')))
        return self.fake

    def test_fake_target_plays_initiator(self) -> None:
        export = self.an_export()
        grant = self.a_grant(export, mode=connection.AccessMode.RO)
        wrong = connection.Credential(grant.credential.username, 'wrong')
        self.target.grant(export, grant)
        self.assertIsNone(self.fake.log_in(export.volume_id, grant.initiator, wrong))
        self.assertEqual('ro', self.fake.log_in(export.volume_id, grant.initiator,
                                                grant.credential))
        self.assertEqual(1, self.fake.exports()[0].grants[0].sessions)
        self.fake.log_out(export.volume_id, grant.initiator)
        self.fake.lose_everything()
        self.assertEqual((), self.fake.exports())


class SingleHostTargetTest(target.TargetContract):
    def make(self) -> fake_target.SingleHostTarget:
        if not hasattr(self, 'fake'):
            self.fake = fake_target.SingleHostTarget(settings.settings('/nowhere'))
        return self.fake


class FakeResizeTest(target.ResizeContract):
    def make(self) -> fake_target.FakeTarget:
        self.fake = fake_target.FakeTarget(settings.settings('/nowhere'))
        return self.fake

    def test_resize_visible_to_hosts(self) -> None:
        export = self.an_export()
        self.target.export(export)
        self.resize(export)
        self.assertEqual(2, self.fake.seen_gb(export.volume_id))


class FakeReservationTest(target.ReservationContract):
    def make(self) -> fake_target.FakeTarget:
        self.fake = fake_target.FakeTarget(settings.settings('/nowhere'))
        return self.fake

    def registers(self, export: connection.Export,
                  grants: Sequence[connection.Grant]) -> None:
        self.fake.hold_reservations(export.volume_id, [one.initiator for one in grants])

    def reserves(self, export: connection.Export, holder: connection.Grant) -> None:
        found = self.fake.reservations(export.volume_id)
        self.fake.hold_reservations(export.volume_id, found.registered, holder.initiator)
