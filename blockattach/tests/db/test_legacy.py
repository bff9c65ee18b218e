"""Database side of the legacy actions: reservations, announced detaches and settings."""
from blockattach.platform.db import clock
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import detaches
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

S = lifecycle.State
E = lifecycle.Event
_volumes = models.volumes
RW, RO = connection.AccessMode.RW, connection.AccessMode.RO


class LegacyTest(base.DatabaseTestCase):

    def words(self, volume):
        found = volume_queries.get(self.database, volume.id)
        return found.status, found.attach_status

    def hold(self, volume):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True), 0)

    def attached(self, volume, count):
        return [make.attachment(self.database, volume, S.ATTACHED) for _ in range(count)]

    def test_legacy_reservation_hidden_from_lists(self):
        volume = make.volume(self.database)
        reservation = self.hold(volume)
        self.assertEqual(('attaching', 'attaching'), self.words(volume))
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))
        self.assertEqual([], attachment_queries.list_page(
            self.database, attachment_queries.Filters(), paging.Page()))
        self.assertEqual([reservation], attachment_queries.of_volume(self.database, volume.id,
                                                                     with_legacy=True))
        self.assertRaises(errors.InvalidVolume, self.hold, volume)

    def test_legacy_reservation_adopted_by_os_attach(self):
        volume = make.volume(self.database)
        reservation = self.hold(volume)
        details = attachments.Attached('instance-a', 'host-a', '/dev/vdb', RW)
        new = attachments.move(self.database, volume.id, reservation.id, E.ATTACH,
                               attachments.Facts(attached=details)).new
        self.assertEqual((S.ATTACHED, False, 'instance-a', 'host-a', '/dev/vdb', RW),
                         (new.state, new.legacy_reservation, new.instance_uuid, new.host,
                          new.mountpoint, new.mode))
        self.assertIsNotNone(new.attached_at)
        self.assertEqual(('in-use', 'attached'), self.words(volume))

    def test_os_attach_without_reservation_attaches(self):
        volume = make.volume(self.database)
        details = attachments.Attached(None, 'host-a', '/dev/vdb', RO)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, attached=details), 0)
        self.assertEqual((S.ATTACHED, None, 'host-a', RO),
                         (row.state, row.instance_uuid, row.host, row.mode))
        self.assertEqual(('in-use', 'attached'), self.words(volume))

    def test_detaches_announced_one_per_attachment(self):
        volume = make.volume(self.database, multiattach=True)
        self.attached(volume, 2)
        for _ in range(2):
            detaches.announce(self.database, volume)
            self.assertEqual(('detaching', 'attached'), self.words(volume))
        self.assertRaises(errors.InvalidVolume, detaches.announce, self.database, volume)
        detaches.cancel(self.database, volume)
        self.assertEqual(('detaching', 'attached'), self.words(volume))
        detaches.cancel(self.database, volume)
        detaches.cancel(self.database, volume)
        self.assertEqual(('in-use', 'attached'), self.words(volume))

    def test_started_detach_consumes_announcement(self):
        volume = make.volume(self.database, multiattach=True)
        first, second = self.attached(volume, 2)
        detaches.announce(self.database, volume)
        gone = make.move(self.database, first, E.DISCONNECT)
        self.assertEqual(('in-use', 'attached'), self.words(volume))
        make.move(self.database, gone, E.DISCONNECTED)
        self.assertEqual(('in-use', 'attached'), self.words(volume))
        detaches.announce(self.database, volume)
        self.assertEqual(('detaching', 'attached'), self.words(volume))
        make.move(self.database, make.move(self.database, second, E.DISCONNECT), E.DISCONNECTED)
        self.assertEqual(('available', 'detached'), self.words(volume))
        self.assertRaises(errors.InvalidVolume, detaches.announce, self.database, volume)

    def test_announcement_expires(self):
        old, young, elsewhere = (make.volume(self.database, multiattach=True) for _ in range(3))
        for volume in (old, young, elsewhere):
            self.attached(volume, 2)
            detaches.announce(self.database, volume)
            detaches.announce(self.database, volume)
        with self.database.writer() as connection:
            connection.execute(_volumes.update().where(_volumes.c.id.in_(
                [old.id, elsewhere.id])).values(detach_announced_at=clock.now(-61)))
            connection.execute(_volumes.update().where(_volumes.c.id == elsewhere.id).values(
                pool='another@backend#pool'))
        self.assertEqual([old.id], detaches.lapse(self.database, old.host, 60))
        self.assertEqual([], detaches.lapse(self.database, old.host, 60))
        self.assertEqual(('in-use', 'attached'), self.words(old))
        for volume in (young, elsewhere):
            self.assertEqual(('detaching', 'attached'), self.words(volume))
        detaches.announce(self.database, old)
        self.assertEqual([], detaches.lapse(self.database, old.host, 60))

    def test_new_attachment_keeps_detaching_status(self):
        volume = make.volume(self.database, multiattach=True)
        self.attached(volume, 1)
        detaches.announce(self.database, volume)
        self.assertEqual(('detaching', 'attached'), self.words(volume))
        self.attached(volume, 1)
        self.assertEqual(('detaching', 'attached'), self.words(volume))

    def test_readonly_volume_overrides_requested_mode(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, 'instance-a', RW), 0)
        self.assertIs(RO, row.mode)
        self.assertRaises(errors.InvalidVolume, volumes.set_readonly, self.database,
                          volume, False)

    def test_cleared_readonly_flag_grants_rw(self):
        volume = make.volume(self.database, multiattach=True)
        volumes.set_readonly(self.database, volume, False)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, 'instance-a', connector=make.connector(mode='rw')), 9)
        self.assertIs(RW, row.mode)


@base.on_sqlite_and_servers_in_turn
class MetadataTest(base.DatabaseTestCase):
    """Admin metadata of os-attach, written and removed in the transaction of the attachment."""

    def details(self, volume):
        found = volume_queries.get(self.database, volume.id)
        return found.readonly, found.attached_mode

    def attach(self, volume, mode=RW, instance='instance-a'):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id,
            attached=attachments.Attached(instance, None, '/dev/vdb', mode)), 0)

    def adopt(self, volume, mode=RW):
        reservation = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True), 0)
        return attachments.move(
            self.database, volume.id, reservation.id, E.ATTACH, attachments.Facts(
                attached=attachments.Attached('instance-b', None, '/dev/vdb', mode))).new

    def test_attached_mode_set_with_attachment(self):
        for attach in (self.attach, self.adopt):
            with self.subTest(attach):
                volume = make.volume(self.database)
                attach(volume, RO)
                self.assertEqual((False, 'ro'), self.details(volume))

    def test_readonly_flag_kept_by_os_attach(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        self.attach(volume, RO)
        self.assertEqual((True, 'ro'), self.details(volume))

    def test_attached_mode_removed_by_any_end_of_attachment(self):
        for events in ((E.RELEASE,), (E.CONNECT, E.CONNECTED, E.DISCONNECT, E.DISCONNECTED)):
            with self.subTest(events):
                volume = make.volume(self.database)
                row = self.attach(volume)
                for event in events:
                    self.assertEqual((False, 'rw'), self.details(volume))
                    row = make.move(self.database, row, event)
                self.assertEqual((False, None), self.details(volume))

    def test_attached_mode_removed_by_end_of_other_attachment(self):
        """As in Cinder, the key has the mode of the last os-attach and ends with any detach."""
        volume = make.volume(self.database, multiattach=True)
        other = make.attachment(self.database, volume, S.RESERVED)
        self.attach(volume)
        make.move(self.database, other, E.RELEASE)
        self.assertEqual((False, None), self.details(volume))

    def test_attached_mode_kept_by_end_of_reservation(self):
        volume = make.volume(self.database, multiattach=True)
        self.attach(volume)
        reservation = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True), 0)
        make.move(self.database, reservation, E.RELEASE)
        born = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, connector=make.connector()), 9)
        make.move(self.database, born, E.REFUSED)
        self.assertEqual((False, 'rw'), self.details(volume))

    def test_invalid_attached_mode_leaves_nothing(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        for attach in (self.attach, self.adopt):
            with self.assertRaisesRegex(errors.InvalidVolume, "Invalid attaching mode 'rw'"):
                attach(volume)
            self.assertEqual((True, None), self.details(volume))
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))

    def test_os_attach_with_other_mode_rejected(self):
        volume = make.volume(self.database, multiattach=True)
        self.attach(volume, RO)
        with self.assertRaisesRegex(errors.InvalidVolume, 'being attached by different mode'):
            self.adopt(volume, RW)
        self.assertEqual((False, 'ro'), self.details(volume))

    def test_refused_connect_keeps_host_and_mountpoint(self):
        volume = make.volume(self.database)
        row = self.attach(volume)
        make.move(self.database, row, E.CONNECT, with_connector=make.connector())
        after = make.move(self.database, row, E.REFUSED)
        self.assertEqual((S.ATTACHED, row.host, row.mountpoint, None, None, None),
                         (after.state, after.host, after.mountpoint, after.connector,
                          after.initiator, after.previous_connector))

    def test_refused_connect_restores_last_mountpoint(self):
        volume = make.volume(self.database)
        reservation = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True), 0)
        for event in (E.CONNECT, E.CONNECTED):
            reservation = make.move(
                self.database, reservation, event, with_connector=make.connector(host='a'))
        row = attachments.move(
            self.database, volume.id, reservation.id, E.ATTACH, attachments.Facts(
                attached=attachments.Attached('instance-b', None, '/dev/vdb', RW))).new
        self.assertEqual(('a', '/dev/vdb'), (row.host, row.mountpoint))
        make.move(self.database, row, E.CONNECT, with_connector=make.connector(host='b'))
        after = make.move(self.database, row, E.REFUSED)
        self.assertEqual((row.host, row.mountpoint, row.connector, row.initiator),
                         (after.host, after.mountpoint, after.connector, after.initiator))
