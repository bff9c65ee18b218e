"""Attachment rows: reservation, transitions, and the derived statuses of the volume."""
import uuid

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

S = lifecycle.State
E = lifecycle.Event
RW, RO = connection.AccessMode.RW, connection.AccessMode.RO

# status and attach_status of a volume whose only attachment is in the state.
VOLUME_WORDS = {
    S.RESERVED: ('reserved', 'reserved'), S.CONNECTING: ('attaching', 'attaching'),
    S.CONNECTED: ('attaching', 'attaching'), S.ATTACHED: ('in-use', 'attached'),
    S.DISCONNECTING: ('detaching', 'detaching'), S.ERROR_ATTACHING: ('reserved', 'reserved'),
    S.ERROR_DETACHING: ('reserved', 'reserved'), S.GONE: ('available', 'detached'),
}


class Case(base.DatabaseTestCase):

    def words(self, volume_id):
        volume = volume_queries.get(self.database, volume_id)
        return volume.status, volume.attach_status

    def reserve(self, volume, instance=None, mode=None, connector=None):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, instance or str(uuid.uuid4()), mode, connector), 60)

    def move(self, row, event, **facts):
        return make.move(self.database, row, event, **facts)

    def again(self, row):
        return attachment_queries.get(self.database, row.id)


@base.on_sqlite_and_servers_in_turn
class ReserveTest(Case):

    def test_reserve_without_connector_sets_reserved(self):
        volume = make.volume(self.database)
        made = self.reserve(volume, 'an-instance', RO)
        self.assertEqual(
            (S.RESERVED, None, RO, None, None, 1, None, volume.id, 'an-instance'),
            (made.state, made.previous_state, made.mode, made.connector, made.connection,
             made.generation, made.owner, made.volume_id, made.instance_uuid))
        self.assertEqual(made, self.again(made))
        self.assertEqual(('reserved', 'reserved'), self.words(volume.id))
        self.assertEqual((), grants.wanted(self.database, [volume.id]))

    def test_reserve_with_connector_sets_connecting(self):
        volume = make.volume(self.database)
        connector = make.connector('iqn.a', 'host-a', mountpoint='/dev/vdb')
        made = self.reserve(volume, connector=connector)
        self.assertEqual(
            (S.CONNECTING, None, RW, 'iqn.a', 'host-a', '/dev/vdb', 'storage-1@file'),
            (made.state, made.previous_state, made.mode, made.initiator, made.host,
             made.mountpoint, made.owner))
        self.assertEqual({**connector, 'mode': 'rw'}, made.connector)
        self.assertEqual(('attaching', 'attaching'), self.words(volume.id))
        [wanted] = grants.wanted(self.database, [volume.id])
        self.assertEqual(('iqn.a', RW), (wanted.initiator, wanted.mode))

    def test_connector_read_as_written(self):
        """The bus may deliver any JSON that the standard library writes, also a lone surrogate."""
        for wwpn in ('\ud800', 'ä\U0001f600', float('inf')):
            row = self.reserve(make.volume(self.database), connector=make.connector(wwpns=[wwpn]))
            found = attachment_queries.get(self.database, row.id)
            self.assertEqual([wwpn], found.connector['wwpns'])

    def test_requested_mode_overrides_connector_mode(self):
        # requested mode, mode of the connector, resulting mode
        for asked, said, expected in ((None, None, RW), (None, 'ro', RO), (None, 'rw', RW),
                                      (RO, None, RO), (RO, 'rw', RO), (RW, 'ro', RW)):
            more = {} if said is None else {'mode': said}
            made = self.reserve(make.volume(self.database), mode=asked,
                                connector=make.connector(**more))
            self.assertEqual((expected, expected), (made.mode, made.connector['mode']))

    def test_rejected_reserve_leaves_nothing(self):
        volume = make.volume(self.database)
        refusals = ((errors.ConnectorUnusable, {'host': 'h'}),
                    (errors.InvalidInput, make.connector(mode='wo')))
        for error, connector in refusals:
            self.assertRaises(error, self.reserve, volume, connector=connector)
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))
        self.assertEqual(volume, volume_queries.get(self.database, volume.id))

    def test_unusable_connector_fields_truncated_in_columns(self):
        for host, mountpoint, expected in (
                (None, None, (None, 'na')), (5, ['x'], (None, 'na')),
                ('h' * 300, 'm' * 300, ('h' * 255, 'm' * 255)), ('a\0b', '', ('ab', 'na'))):
            connector = {'initiator': 'iqn.a', 'host': host, 'mountpoint': mountpoint,
                         'nested': {'list': [1, None]}}
            made = self.reserve(make.volume(self.database), connector=connector)
            self.assertEqual(expected, (made.host, made.mountpoint))
            self.assertEqual({**connector, 'mode': 'rw'}, made.connector)

    def test_reserve_of_absent_volume_not_found(self):
        gone = make.volume(self.database, own_status=volume_lifecycle.OwnStatus.GONE)
        for volume_id in (str(uuid.uuid4()), gone.id):
            self.assertRaises(errors.VolumeNotFound, attachments.reserve, self.database,
                              attachments.Wish(volume_id, 'p'), 60)

    def test_plain_volume_has_one_holder_and_its_pair(self):
        volume = make.volume(self.database)
        self.reserve(volume, 'a', RO)
        self.assertRaises(errors.InvalidVolume, self.reserve, volume, 'b')
        pair = self.reserve(volume, 'a', RW)
        self.assertEqual(RO, pair.mode)
        self.assertRaises(errors.InvalidVolume, self.reserve, volume, 'a')
        self.move(pair, E.RELEASE)
        self.reserve(volume, 'a')

    def test_pair_stays_after_holder_released(self):
        volume = make.volume(self.database)
        first = self.reserve(volume, 'a')
        self.reserve(volume, 'a')
        self.move(first, E.RELEASE)
        self.assertRaises(errors.InvalidVolume, self.reserve, volume, 'b')
        self.reserve(volume, 'a')

    def test_multiattach_volume_stays_in_use_while_others_attach(self):
        volume = make.volume(self.database, multiattach=True)
        make.attachment(self.database, volume, S.ATTACHED)
        for state in lifecycle.LIVE:
            make.attachment(self.database, volume, state)
            self.assertEqual(('in-use', 'attached'), self.words(volume.id))

    def test_unique_index_rejects_second_holder(self):
        volume = make.volume(self.database)
        reserved = self.reserve(volume)
        with self.database.reader() as connection:
            row = connection.execute(models.attachments.select().where(
                models.attachments.c.id == reserved.id)).one()._asdict()
        row['id'] = str(uuid.uuid4())
        with self.assertRaises(db_exception.DBDuplicateEntry), \
                self.database.writer() as connection:
            connection.execute(models.attachments.insert().values(**row))
        self.assertEqual([reserved], attachment_queries.of_volume(self.database, volume.id))


@base.on_sqlite_and_servers_in_turn
class MoveTest(Case):

    def test_volume_status_derived_from_each_state(self):
        for state in S:
            with self.subTest(state):
                volume = make.volume(self.database)
                made = make.attachment(self.database, volume, state)
                self.assertIs(state, made.state)
                self.assertEqual(1 + len(make.WAYS[state]), made.generation)
                self.assertEqual(VOLUME_WORDS[state], self.words(volume.id))

    def test_transitions_follow_table(self):
        for state in lifecycle.LIVE:
            for event in E:
                with self.subTest(state=state, event=event):
                    row = make.attachment(self.database, state=state)
                    # An attachment that the backend may know cannot be released without the
                    # backend.
                    known = event is E.RELEASE and row.initiator is not None
                    if event in lifecycle.allowed_events(state) and not known:
                        moved = self.move(row, event)
                        self.assertIs(lifecycle.next_state(state, event, row.previous_state),
                                      moved.state)
                        self.assertEqual(row.generation + 1, moved.generation)
                        self.assertEqual(VOLUME_WORDS[moved.state], self.words(row.volume_id))
                    else:
                        self.assertRaises(errors.InvalidTransition, self.move, row, event)
                        self.assertEqual(row, self.again(row))
                        self.assertEqual(VOLUME_WORDS[state], self.words(row.volume_id))

    def test_move_returns_row_before_and_after(self):
        row = make.attachment(self.database, state=S.CONNECTED)
        moved = attachments.move(self.database, row.volume_id, row.id, E.COMPLETE)
        self.assertEqual((row, self.again(row)), (moved.old, moved.new))
        self.assertEqual(('in-use', 'attached'),
                         (moved.volume_status, moved.volume_attach_status))

    def test_owner_set_in_transitional_states_only(self):
        for state in lifecycle.LIVE:
            owner = make.attachment(self.database, state=state).owner
            self.assertEqual('storage-1@file' if state in lifecycle.TRANSITIONAL else None, owner)

    def test_move_with_other_generation_rejected(self):
        row = make.attachment(self.database, state=S.CONNECTED)
        for generation in (0, row.generation - 1, row.generation + 1):
            self.assertRaises(errors.StaleGeneration, attachments.move, self.database,
                              row.volume_id, row.id, E.COMPLETE, generation=generation)
        self.assertEqual(row, self.again(row))
        attachments.move(self.database, row.volume_id, row.id, E.COMPLETE,
                         generation=row.generation)

    def test_move_of_absent_attachment_not_found(self):
        row = make.attachment(self.database, state=S.RESERVED)
        other = make.volume(self.database)
        for volume_id, attachment_id in ((row.volume_id, str(uuid.uuid4())), (other.id, row.id),
                                         (str(uuid.uuid4()), row.id)):
            self.assertRaises(errors.AttachmentNotFound, attachments.move, self.database,
                              volume_id, attachment_id, E.COMPLETE)
        self.move(row, E.RELEASE)
        self.assertRaises(errors.AttachmentNotFound, self.move, row, E.COMPLETE)

    def test_late_event_of_deleted_volume_not_found(self):
        row = make.attachment(self.database, state=S.GONE)
        deleting = volumes.start_delete(self.database, make.judged(row.volume_id), 60)
        work_ends.finish(self.database, volumes.deletion(row.volume_id, deleting.generation))
        self.assertRaises(errors.AttachmentNotFound, self.move, row, E.CONNECTED)

    def test_connected_stores_connection_and_attached_at(self):
        row = make.attachment(self.database, state=S.CONNECTING)
        self.assertIsNone(row.attached_at)
        moved = self.move(row, E.CONNECTED)
        self.assertEqual('iscsi', moved.connection['driver_volume_type'])
        self.assertIsNotNone(moved.attached_at)
        again = self.move(moved, E.COMPLETE)
        self.assertEqual((moved.connection, moved.attached_at),
                         (again.connection, again.attached_at))

    def test_gone_attachment_kept_as_deleted_row(self):
        row = make.attachment(self.database, state=S.GONE)
        self.assertIsNotNone(row.detached_at)
        self.assertRaises(errors.AttachmentNotFound, self.again, row)
        with self.database.reader() as connection:
            kept = connection.execute(
                sa.select(models.attachments.c.state, models.attachments.c.rank,
                          models.attachments.c.slot, models.attachments.c.deleted)
                .where(models.attachments.c.id == row.id)).one()
        self.assertEqual(('gone', None, None, True), tuple(kept))


@base.on_sqlite_and_servers_in_turn
class OvertakenTest(Case):
    """Request with an outdated read, which is checked against the current rows."""

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)

    def read(self, instance=None):
        """Return the current snapshot for a new attachment."""
        return pairs.precondition(self.database, self.volume.id, instance, None)

    def reserve_as(self, seen):
        return attachments.reserve(self.database, attachments.Wish(
            self.volume.id, self.volume.project_id, seen.instance_uuid, expected=seen), 60)

    def test_reserve_after_delete_started_rejected(self):
        seen = self.read()
        volumes.start_delete(self.database, self.volume, 60)
        self.assertRaises(errors.InvalidVolume, self.reserve_as, seen)
        self.assertEqual([], attachment_queries.of_volume(self.database, self.volume.id))

    def test_reserve_after_other_attached_keeps_in_use(self):
        seen = self.read()
        make.attachment(self.database, self.volume, S.ATTACHED)
        self.reserve_as(seen)
        self.assertEqual(VOLUME_WORDS[S.ATTACHED], self.words(self.volume.id))

    def test_reserve_after_other_server_reserved_rejected(self):
        self.volume = make.volume(self.database)
        seen = self.read('an-instance')
        made = self.reserve(self.volume, 'another-instance')
        self.assertRaises(errors.InvalidVolume, self.reserve_as, seen)
        self.assertEqual([made], attachment_queries.of_volume(self.database, self.volume.id))

    def test_outdated_move_does_not_overwrite_newer_row(self):
        """This holds also without history, whose unique generations would reject the write."""
        self.database.history_days = 0
        make.attachment(self.database, self.volume, S.ATTACHED)
        row = make.attachment(self.database, self.volume, S.CONNECTING)
        seen = self.again(row)
        self.move(row, E.DISCONNECT)
        self.assertRaises(errors.InvalidTransition, attachments.move, self.database,
                          self.volume.id, row.id, E.CONNECTED, attachments.Facts(connection={}),
                          expected=seen)
        self.assertIs(S.DISCONNECTING, self.again(row).state)

    def test_disconnect_after_other_host_left_succeeds(self):
        first, second = (make.attachment(self.database, self.volume, S.ATTACHED)
                         for _ in range(2))
        seen = self.again(second)
        self.move(self.move(first, E.DISCONNECT), E.DISCONNECTED)
        attachments.move(self.database, self.volume.id, second.id, E.DISCONNECT,
                         attachments.Facts(lease_seconds=3600), expected=seen)
        self.assertEqual(VOLUME_WORDS[S.DISCONNECTING], self.words(self.volume.id))


@base.on_chosen_databases
class RefusedTest(Case):
    """Final refusal of the backend, which restores the attachment."""

    def undone(self, row, event, **facts):
        """Return the row after an event and its refusal, without fields that both must change."""
        self.move(row, event, **facts)
        refused = self.move(self.again(row), E.REFUSED)
        self.assertEqual('refused by the test', refused.last_error)
        self.assertEqual(row.generation + 2, refused.generation)
        return refused

    def check(self, before, after):
        for name in ('state', 'mode', 'connector', 'initiator', 'host', 'mountpoint', 'connection',
                     'previous_state', 'previous_connector', 'previous_initiator',
                     'previous_mode', 'owner', 'attached_at'):
            self.assertEqual(getattr(before, name), getattr(after, name), name)
        self.assertEqual(VOLUME_WORDS[before.state], self.words(before.volume_id))

    def test_refused_connect_restores_each_state(self):
        for state in (S.RESERVED, S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING):
            for mode in (None, RW, RO):
                with self.subTest(state=state, mode=mode):
                    row = make.attachment(self.database, state=state, mode=mode)
                    before = grants.wanted(self.database, [row.volume_id])
                    after = self.undone(row, E.CONNECT,
                                        with_connector=make.connector('iqn.other', mode='ro'))
                    if state is S.ERROR_ATTACHING:
                        self.assertEqual((row.state, row.initiator),
                                         (after.state, after.initiator))
                    else:
                        self.check(row, after)
                    self.assertEqual(before, grants.wanted(self.database, [row.volume_id]))
                    self.assertIsNone(make.credential(self.database, row.volume_id, 'iqn.other'))

    def test_refused_connect_forgets_its_mode(self):
        row = make.attachment(self.database, state=S.RESERVED)
        after = self.undone(row, E.CONNECT, with_connector=make.connector(mode='ro'))
        self.assertIsNone(after.mode)
        again = self.move(after, E.CONNECT, with_connector=make.connector(mode='rw'))
        self.assertEqual(RW, again.mode)

    def test_refused_second_connect_restores_state_before_first(self):
        row = make.attachment(self.database, state=S.ATTACHED)
        self.move(row, E.CONNECT, with_connector=make.connector('iqn.second'))
        second = self.move(self.again(row), E.CONNECT,
                           with_connector=make.connector('iqn.third'))
        self.assertEqual((S.ATTACHED, row.initiator),
                         (second.previous_state, second.previous_initiator))
        self.assertIsNone(make.credential(self.database, row.volume_id, 'iqn.second'))
        self.check(row, self.move(second, E.REFUSED))

    def test_refused_disconnect_restores_each_state(self):
        for state in (S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING, S.ERROR_DETACHING):
            with self.subTest(state=state):
                row = make.attachment(self.database, state=state)
                self.check(row, self.undone(row, E.DISCONNECT))

    def test_refused_disconnect_while_connecting_sets_error_detaching(self):
        row = make.attachment(self.database, state=S.CONNECTING)
        self.assertIs(S.ERROR_DETACHING, self.undone(row, E.DISCONNECT).state)

    def test_refused_reserve_with_connector_is_gone(self):
        volume = make.volume(self.database)
        row = self.reserve(volume, connector=make.connector('iqn.a'))
        self.assertIs(S.GONE, self.move(row, E.REFUSED).state)
        self.assertEqual(('available', 'detached'), self.words(volume.id))
        self.assertIsNone(make.credential(self.database, volume.id, 'iqn.a'))
        self.reserve(volume)

    def test_success_clears_last_error(self):
        row = make.attachment(self.database, state=S.ERROR_ATTACHING)
        self.assertEqual('refused by the test', row.last_error)
        self.move(row, E.CONNECT)
        self.assertIsNone(self.move(self.again(row), E.CONNECTED).last_error)
