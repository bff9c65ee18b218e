"""What the legacy actions need of the database: legacy reservations, announced detaches,
settings."""
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

    def test_a_legacy_reservation_shows_on_the_volume_only(self):
        volume = make.volume(self.database)
        reservation = self.hold(volume)
        self.assertEqual(('attaching', 'attaching'), self.words(volume))
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))
        self.assertEqual([], attachment_queries.list_page(
            self.database, attachment_queries.Filters(), paging.Page()))
        self.assertEqual([reservation], attachment_queries.of_volume(self.database, volume.id,
                                                                     with_legacy=True))
        self.assertRaises(errors.InvalidVolume, self.hold, volume)

    def test_a_legacy_reservation_is_taken_over(self):
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

    def test_what_was_never_reserved_is_attached_at_once(self):
        volume = make.volume(self.database)
        details = attachments.Attached(None, 'host-a', '/dev/vdb', RO)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, attached=details), 0)
        self.assertEqual((S.ATTACHED, None, 'host-a', RO),
                         (row.state, row.instance_uuid, row.host, row.mode))
        self.assertEqual(('in-use', 'attached'), self.words(volume))

    def test_detaches_are_announced_one_by_one(self):
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

    def test_a_detach_that_begins_was_announced(self):
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

    def test_an_announcement_lapses(self):
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

    def test_a_new_server_leaves_the_word_detaching(self):
        volume = make.volume(self.database, multiattach=True)
        self.attached(volume, 1)
        detaches.announce(self.database, volume)
        self.assertEqual(('detaching', 'attached'), self.words(volume))
        self.attached(volume, 1)
        self.assertEqual(('detaching', 'attached'), self.words(volume))

    def test_a_read_only_volume_overrules_everybody(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, 'instance-a', RW), 0)
        self.assertIs(RO, row.mode)
        self.assertRaises(errors.InvalidVolume, volumes.set_readonly, self.database,
                          volume, False)

    def test_a_flag_set_after_the_reserve_counts_when_the_connector_comes(self):
        volume = make.volume(self.database, multiattach=True)
        volumes.set_readonly(self.database, volume, False)
        row = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, 'instance-a', connector=make.connector(mode='rw')), 9)
        self.assertIs(RW, row.mode)


@base.on_sqlite_and_servers_in_turn
class MetadataTest(base.DatabaseTestCase):
    """What os-attach leaves on a volume: it comes and goes in an attachment's transaction."""

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

    def test_the_mode_comes_with_the_attachment(self):
        for attach in (self.attach, self.adopt):
            with self.subTest(attach):
                volume = make.volume(self.database)
                attach(volume, RO)
                self.assertEqual((False, 'ro'), self.details(volume))

    def test_a_flag_that_was_set_stays(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        self.attach(volume, RO)
        self.assertEqual((True, 'ro'), self.details(volume))

    def test_it_goes_with_whatever_ends_an_attachment(self):
        for events in ((E.RELEASE,), (E.CONNECT, E.CONNECTED, E.DISCONNECT, E.DISCONNECTED)):
            with self.subTest(events):
                volume = make.volume(self.database)
                row = self.attach(volume)
                for event in events:
                    self.assertEqual((False, 'rw'), self.details(volume))
                    row = make.move(self.database, row, event)
                self.assertEqual((False, None), self.details(volume))

    def test_it_goes_with_another_one_too(self):
        """As in Cinder: it has the mode of the last os-attach, and ends with the next end."""
        volume = make.volume(self.database, multiattach=True)
        other = make.attachment(self.database, volume, S.RESERVED)
        self.attach(volume)
        make.move(self.database, other, E.RELEASE)
        self.assertEqual((False, None), self.details(volume))

    def test_what_has_never_been_an_attachment_takes_nothing_along(self):
        volume = make.volume(self.database, multiattach=True)
        self.attach(volume)
        reservation = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True), 0)
        make.move(self.database, reservation, E.RELEASE)
        born = attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, connector=make.connector()), 9)
        make.move(self.database, born, E.REFUSED)
        self.assertEqual((False, 'rw'), self.details(volume))

    def test_a_mode_that_cannot_be_leaves_nothing(self):
        volume = make.volume(self.database)
        volumes.set_readonly(self.database, volume, True)
        for attach in (self.attach, self.adopt):
            with self.assertRaisesRegex(errors.InvalidVolume, "Invalid attaching mode 'rw'"):
                attach(volume)
            self.assertEqual((True, None), self.details(volume))
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))

    def test_another_mode_than_that_of_the_others(self):
        volume = make.volume(self.database, multiattach=True)
        self.attach(volume, RO)
        with self.assertRaisesRegex(errors.InvalidVolume, 'being attached by different mode'):
            self.adopt(volume, RW)
        self.assertEqual((False, 'ro'), self.details(volume))

    def test_the_place_outlives_a_connector_that_was_refused(self):
        volume = make.volume(self.database)
        row = self.attach(volume)
        make.move(self.database, row, E.CONNECT, with_connector=make.connector())
        after = make.move(self.database, row, E.REFUSED)
        self.assertEqual((S.ATTACHED, row.host, row.mountpoint, None, None, None),
                         (after.state, after.host, after.mountpoint, after.connector,
                          after.initiator, after.previous_connector))

    def test_the_last_mountpoint_is_the_one_that_a_refusal_brings_back(self):
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
