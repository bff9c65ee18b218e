"""List queries: filters, pages with ties and NULLs, and interrupted work."""
import datetime
import itertools
import uuid

from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import work
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import messages as texts
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

S = lifecycle.State
OWN = volume_lifecycle.OwnStatus
ASC, DESC = paging.ASCENDING, paging.DESCENDING
EVERY = volume_queries.Filters(None)


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        # All rows have the same timestamp unless a test advances the clock.
        self.database = self.fixture.open(self.clock)

    def volumes(self, filters=EVERY, **page):
        return volume_queries.list_page(self.database, filters, paging.Page(**page))

    def attachments(self, page=None, **filters):
        return attachment_queries.list_page(
            self.database, attachment_queries.Filters(**filters), page or paging.Page())


@base.on_sqlite_and_servers_in_turn
class ChildrenTest(Case):
    """Children of the volumes of a page of any length."""

    def test_volumes_listed_with_their_metadata(self):
        for number in range(140):
            make.volume(self.database, name=f'{number:03}', metadata={'number': str(number)})
        for length in (1, 16, 17, 128, 129, 140):
            with self.subTest(length):
                page = self.volumes(sort=(('name', ASC),), limit=length)
                self.assertEqual([{'number': str(number)} for number in range(length)],
                                 [dict(one.metadata) for one in page])
                self.assertEqual({()}, {one.attached for one in page})

    def test_volumes_listed_with_attached_servers(self):
        """Every third volume has one or two attached servers, and one more that is attaching."""
        servers = []
        for number in range(40):
            volume = make.volume(self.database, name=f'{number:03}', multiattach=True)
            servers.append([])
            for _ in range(number % 3):
                self.clock.advance(1)
                servers[-1].append(make.attachment(self.database, volume).instance_uuid)
            make.attachment(self.database, volume, S.CONNECTED)
        for length in (1, 2, 16, 17, 40):
            with self.subTest(length):
                page = self.volumes(sort=(('name', ASC),), limit=length)
                self.assertEqual(servers[:length], [
                    [one.instance_uuid for one in volume.attached] for volume in page])


@base.on_sqlite_and_servers_in_turn
class PagingTest(Case):
    """Pages of volumes whose names have two ties, two NULLs and two that differ in case only."""

    NAMES = ('b', None, 'a', 'B', 'b', None, 'c')

    def setUp(self):
        super().setUp()
        self.made = [make.volume(self.database, name=name, own_status=OWN.CREATING, size_gb=size)
                     for name, size in zip(self.NAMES, itertools.cycle((1, 2)), strict=False)]

    def ordered(self, direction, *names):
        """Return the ids of the volumes as sorted by Python.

        NULL is lowest. The id breaks ties in the direction of the last key.
        """
        def key(volume):
            values = [getattr(volume, name) for name in (*names, 'id')]
            return [(value is not None, value) if value is not None else (False, '')
                    for value in values]
        return [volume.id for volume in
                sorted(self.made, key=key, reverse=direction == DESC)]

    def walked(self, limit, **page):
        """Return the ids of all pages. Each page begins after the last id of the previous one."""
        found, marker = [], None
        while True:
            part = [volume.id for volume in self.volumes(limit=limit, marker=marker, **page)]
            found += part
            if len(part) < limit:
                return found
            marker = part[-1]

    def test_pages_form_sorted_list(self):
        if self.KIND == database.POSTGRESQL:
            self.skipTest('the order of text depends on the locale, see the next test')
        for names, direction, limit in itertools.product(
                (('name',), ('size_gb', 'name'), ('created_at',), ()), (ASC, DESC), (1, 2, 3, 7)):
            sort = tuple(('size' if name == 'size_gb' else name, direction) for name in names)
            with self.subTest(sort=sort, limit=limit):
                expected = self.ordered(direction if names else DESC, *names)
                self.assertEqual(expected, self.walked(limit, sort=sort))

    def test_pages_complete_in_any_collation(self):
        for key, direction, limit in itertools.product(
                ('name', 'created_at', 'size', 'host', 'updated_at'), (ASC, DESC), (1, 2, 3)):
            with self.subTest(key=key, direction=direction, limit=limit):
                sort = ((key, direction),)
                whole = [volume.id for volume in self.volumes(sort=sort)]
                self.assertEqual({volume.id for volume in self.made}, set(whole))
                self.assertEqual(whole, self.walked(limit, sort=sort))

    def test_nulls_first_ascending_last_descending(self):
        up = [volume.name for volume in self.volumes(sort=(('name', ASC),))]
        down = [volume.name for volume in self.volumes(sort=(('name', DESC),))]
        self.assertEqual([None, None], up[:2])
        self.assertEqual(up[::-1], down)

    def test_sort_directions_differ_by_key(self):
        found = [(volume.size_gb, volume.id)
                 for volume in self.volumes(sort=(('size', DESC), ('id', ASC)))]
        self.assertEqual(sorted(found, key=lambda pair: (-pair[0], pair[1])), found)

    def test_offset_with_and_without_limit(self):
        whole = self.volumes()
        self.assertEqual(whole[2:4], self.volumes(limit=2, offset=2))
        self.assertEqual(whole[5:], self.volumes(offset=5))
        self.assertEqual([], self.volumes(offset=50))
        self.assertEqual(whole[3:4], self.volumes(marker=whole[1].id, offset=1, limit=1))

    def test_limit_zero_returns_nothing(self):
        self.assertEqual([], self.volumes(limit=0))

    def test_unknown_marker_not_found(self):
        gone = make.volume(self.database, own_status=OWN.GONE)
        for marker in (str(uuid.uuid4()), gone.id):
            self.assertRaises(errors.VolumeNotFound, self.volumes, marker=marker)
        self.assertRaises(errors.VolumeNotFound, self.volumes,
                          volume_queries.Filters('another project'), marker=self.made[0].id)
        self.assertRaises(errors.AttachmentNotFound, self.attachments, paging.Page(marker='no'))
        self.assertRaises(errors.MessageNotFound, messages.list_page, self.database, None, {},
                          paging.Page(marker='no'))

    def test_default_order_newest_first(self):
        self.clock.advance(1)
        newest = make.volume(self.database, own_status=OWN.CREATING)
        self.assertEqual(newest.id, self.volumes(limit=1)[0].id)


@base.on_sqlite_and_servers_in_turn
class VolumeFilterTest(Case):

    def check(self, expected, **filters):
        filters.setdefault('project_id', None)
        given = volume_queries.Filters(**filters)
        self.assertEqual({volume.id for volume in expected},
                         {volume.id for volume in self.volumes(given)})
        self.assertEqual(len(expected), volume_queries.count(self.database, given))

    def test_volume_filters(self):
        plain = make.volume(self.database, name='plain', metadata={'a': '1', 'b': '2'})
        shared = make.volume(self.database, name='sh%red_', multiattach=True, size_gb=2,
                             metadata={'a': '1'})
        other = make.volume(self.database, name='Plain', project_id='other', own_status=OWN.ERROR)
        make.volume(self.database, own_status=OWN.GONE)
        self.check([plain, shared, other])
        self.check([plain, shared], project_id=make.PROJECT)
        self.check([plain], equal={'name': 'plain'})
        self.check([plain, shared], equal={'status': 'available'})
        self.check([shared], equal={'multiattach': True, 'size': 2})
        self.check([plain, other], equal={'name': ['plain', 'Plain', 'none']})
        self.check([], equal={'name': []})
        self.check([shared], like={'name': 'h%r'})
        self.check([], like={'name': 'h_r'})
        self.check([shared], like={'name': '_'})
        self.check([plain, shared], metadata={'a': '1'})
        self.check([plain], metadata={'a': '1', 'b': '2'})
        self.check([], metadata={'A': '1'})
        self.check([plain], equal={'volume_type_id': plain.volume_type_id, 'host': make.POOL})

    def test_time_filter_operators(self):
        first = make.volume(self.database, own_status=OWN.CREATING)
        self.clock.advance(10)
        second = make.volume(self.database, own_status=OWN.CREATING)
        for operator, expected in (('gt', [second]), ('gte', [first, second]), ('eq', [first]),
                                   ('neq', [second]), ('lt', []), ('lte', [first])):
            self.check(expected, compared=[('created_at', operator, first.created_at)])

    def test_volumes_listed_with_their_children(self):
        shared = make.volume(self.database, multiattach=True, metadata={'a': '1'})
        other = make.volume(self.database)
        rows = [make.attachment(self.database, shared) for _ in range(2)]
        for state in set(lifecycle.LIVE) - {S.ATTACHED}:
            make.attachment(self.database, shared, state)
        make.attachment(self.database, other, S.RESERVED)
        for volume in (shared, other):
            volumes.change_image_metadata(self.database, volume,
                                          lambda now: {'a': '2', 'os': 'linux'})
        found = {volume.id: volume for volume in self.volumes()}
        self.assertEqual({row.id for row in rows},
                         {server.attachment_id for server in found[shared.id].attached})
        self.assertEqual({(row.instance_uuid, row.host, row.mountpoint, row.attached_at)
                          for row in rows},
                         {(server.instance_uuid, server.host, server.mountpoint,
                           server.attached_at) for server in found[shared.id].attached})
        self.assertEqual((), found[other.id].attached)
        self.assertEqual(({'a': '1'}, {}), (found[shared.id].metadata, found[other.id].metadata))
        for volume in (shared, other):
            self.assertEqual({'a': '2', 'os': 'linux'}, found[volume.id].image_metadata)
        for volume in found.values():
            self.assertEqual(volume, volume_queries.get(self.database, volume.id))


@base.on_chosen_databases
class AttachmentFilterTest(Case):

    def test_attachment_filters(self):
        shared = make.volume(self.database, multiattach=True)
        one = make.attachment(self.database, shared, instance_uuid='i-1',
                              with_connector=make.connector(host='compute-1'))
        two = make.attachment(self.database, shared, S.CONNECTED, instance_uuid='i-2',
                              with_connector=make.connector(host='compute-2'))
        three = make.attachment(self.database, state=S.RESERVED)
        make.attachment(self.database, state=S.GONE)
        for expected, filters in (
                ([one, two, three], {}), ([one, two, three], {'project_id': make.PROJECT}),
                ([], {'project_id': 'other'}), ([one, two], {'volume_id': shared.id}),
                ([one], {'instance_uuid': 'i-1'}), ([two], {'host': 'compute-2'}),
                ([one, two], {'like': {'attached_host': 'compute-'}}),
                ([], {'like': {'attached_host': 'compute_'}}),
                ([three], {'attachment_id': three.id}),
                ([two], {'states': lifecycle.states_on_wire('attaching')}), ([], {'states': ()})):
            with self.subTest(filters):
                self.assertEqual({row.id for row in expected},
                                 {row.id for row in self.attachments(**filters)})

    def test_attachments_of_volume_oldest_first(self):
        shared = make.volume(self.database, multiattach=True)
        rows = []
        for _ in range(3):
            self.clock.advance(1)
            rows.append(make.attachment(self.database, shared))
        self.assertEqual(rows, attachment_queries.of_volume(self.database, shared.id))
        self.assertEqual(rows[::-1], self.attachments())

    def test_attachments_sorted_by_every_key(self):
        shared = make.volume(self.database, multiattach=True)
        rows = {make.attachment(self.database, shared, state).id for state in lifecycle.LIVE}
        for key, direction in itertools.product(attachment_queries.SORT_COLUMNS, (ASC, DESC)):
            found, marker = [], None
            while len(found) < len(rows):
                [row] = self.attachments(paging.Page(1, marker, sort=((key, direction),)))
                found.append(row.id)
                marker = row.id
            self.assertEqual(rows, set(found), key)


@base.on_chosen_databases
class HostTest(Case):
    """Work of one ``host@backend``; names may have underscores or a common prefix."""

    MINE = 'node_1@lvm_1'
    OTHERS = ('nodeX1@lvm_1', 'node_1@lvm_10', 'node_1@lvm', 'Node_1@lvm_1', 'x-node_1@lvm_1')

    def setUp(self):
        super().setUp()
        self.mine = make.volume(self.database, on_pool=f'{self.MINE}#pool_a', multiattach=True)
        self.others = [make.volume(self.database, on_pool=f'{host}#pool_a', multiattach=True)
                       for host in self.OTHERS]

    def test_existing_volumes_on_host(self):
        ids = ['nowhere', self.mine.id, *(volume.id for volume in self.others)]
        self.assertEqual({self.mine.id},
                         volume_queries.existing_on(self.database, self.MINE, ids))
        self.assertEqual(set(), volume_queries.existing_on(self.database, 'node_1', ids))
        self.assertEqual(set(), volume_queries.existing_on(self.database, self.MINE, []))

    def test_transitional_pairs_on_host(self):
        for volume in (self.mine, *self.others):
            for initiator, state in (('iqn.a', S.CONNECTED), ('iqn.b', S.CONNECTING)):
                make.attachment(self.database, volume, state,
                                with_connector=make.connector(initiator=initiator))
        self.assertEqual({(self.mine.id, 'iqn.b')},
                         attachment_queries.at_work(self.database, self.MINE))

    def test_volumes_in_use_on_host(self):
        for volume in (self.mine, *self.others):
            make.attachment(self.database, volume)
            make.attachment(self.database, volume, S.RESERVED)
        self.assertEqual([self.mine.id],
                         attachment_queries.volumes_in_use(self.database, self.MINE))

    def test_interrupted_attachments_on_host(self):
        for volume in (self.mine, *self.others):
            for state in lifecycle.LIVE:
                make.attachment(self.database, volume, state)
        self.assertEqual([], attachment_queries.interrupted(self.database, self.MINE))
        found = attachment_queries.interrupted(self.database, self.MINE, 'one/2')
        self.assertEqual({(self.mine.id, state) for state in lifecycle.TRANSITIONAL},
                         {(row.volume_id, row.state) for row in found})

    def test_due_work_of_other_instance_on_host(self):
        for volume in (self.mine, *self.others):
            started = volumes.start_delete(self.database, volume, 60)
            self.assertTrue(work.claim(self.database, volumes.deletion(
                volume.id, started.generation, 'one/1'), started.host, 60))
        self.assertEqual([], work.due(self.database, self.MINE))
        found = work.due(self.database, self.MINE, 'one/2')
        self.assertEqual([self.mine.id], [one.resource_id for one in found])
        self.assertEqual([], work.due(self.database, self.MINE, 'one/1'))


@base.on_chosen_databases
class MessageTest(Case):

    def test_message_scoped_to_project_until_deleted(self):
        messages.create(self.database, 'p', 'req-1', texts.NO_VALID_POOL, 'a-volume', 'full',
                        words='no room')
        self.clock.advance(1)
        messages.create(self.database, 'other', None, texts.ATTACH_FAILED, 'b-volume')
        [found] = messages.list_page(self.database, 'p', {}, paging.Page())
        self.assertEqual(
            ('VOLUME_VOLUME_001_003', 'req-1', 'a-volume', 'ERROR', 'p',
             f'{texts.NO_VALID_POOL.user_message} no room', 'full'),
            (found.event_id, found.request_id, found.resource_id, found.message_level,
             found.project_id, found.user_message, found.detail))
        self.assertEqual(datetime.timedelta(days=30), found.guaranteed_until - found.created_at)
        self.assertEqual(found, messages.get(self.database, found.id))
        self.assertEqual(2, len(messages.list_page(self.database, None, {}, paging.Page())))
        self.assertEqual([found], messages.list_page(
            self.database, None, {'resource_uuid': 'a-volume'}, paging.Page()))
        for _ in range(2):
            messages.delete(self.database, found.id)
        self.assertRaises(errors.MessageNotFound, messages.get, self.database, found.id)
