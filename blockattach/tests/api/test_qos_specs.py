"""QoS specs: their lifecycle, their volume types, and the specs a consumer gets."""
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

SPECS = {'total_iops_sec': '500', 'total_bytes_sec': '1048576'}


class QosTestCase(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.admin = self.http.as_admin

    def create(self, name='gold', **fields):
        return self.admin.post('/qos-specs', {'qos_specs': {'name': name, **fields}})

    def made(self, name='gold', **fields):
        reply = self.create(name, **fields)
        self.assert_status(200, reply)
        return reply.body['qos_specs']['id']

    def shown(self, specs_id):
        reply = self.admin.get(f'/qos-specs/{specs_id}')
        self.assert_status(200, reply)
        return reply.body['qos_specs']

    def put(self, specs_id, **specs):
        return self.admin.put(f'/qos-specs/{specs_id}', {'qos_specs': specs})

    def delete_keys(self, specs_id, *keys):
        return self.admin.put(f'/qos-specs/{specs_id}/delete_keys', {'keys': keys})

    def act(self, specs_id, verb, kind=None, query=None):
        query = query or (f'?vol_type_id={kind.id}' if kind else '')
        return self.admin.get(f'/qos-specs/{specs_id}/{verb}{query}')

    def given(self, specs_id, kind):
        self.assert_status(202, self.act(specs_id, 'associate', kind))

    def types(self, specs_id):
        reply = self.admin.get(f'/qos-specs/{specs_id}/associations')
        self.assert_status(200, reply)
        return reply.body['qos_associations']

    def kind(self, name=None):
        return make.volume_type(self.http.database, name)

    def specs_of(self, kind):
        return self.admin.get(f'/types/{kind.id}').body['volume_type']['qos_specs_id']


class LifecycleTest(QosTestCase):

    def test_qos_specs_lifecycle(self):
        reply = self.create(consumer='front-end', **SPECS)
        self.assert_status(200, reply)
        made = reply.body['qos_specs']
        self.assertEqual({'id': made['id'], 'name': 'gold', 'consumer': 'front-end',
                          'specs': SPECS}, made)
        self.assertEqual(['self', 'bookmark'], [link['rel'] for link in reply.body['links']])
        self.assertTrue(reply.body['links'][0]['href'].endswith(f'/qos-specs/{made["id"]}'))
        self.assertEqual(reply.body, self.admin.get(f'/qos-specs/{made["id"]}').body)
        self.assertEqual({'qos_specs': [made]}, self.admin.get('/qos-specs').body)
        reply = self.put(made['id'], total_iops_sec='9', consumer='both', mine='x y')
        self.assert_status(200, reply)
        self.assertEqual({'qos_specs': {'total_iops_sec': '9', 'consumer': 'both',
                                        'mine': 'x y'}}, reply.body)
        self.assertEqual({**made, 'consumer': 'both', 'specs': {
            **SPECS, 'total_iops_sec': '9', 'mine': 'x y'}}, self.shown(made['id']))
        reply = self.delete_keys(made['id'], 'mine', 'total_bytes_sec')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assertEqual({'total_iops_sec': '9'}, self.shown(made['id'])['specs'])
        reply = self.admin.delete(f'/qos-specs/{made["id"]}')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assert_fault(404, f'No such QoS spec {made["id"]}.',
                          self.admin.get(f'/qos-specs/{made["id"]}'))
        self.assertEqual({'qos_specs': []}, self.admin.get('/qos-specs').body)
        self.assertNotEqual(made['id'], self.made())

    def test_qos_specs_created_with_defaults(self):
        self.assertEqual({'consumer': 'back-end', 'specs': {}, 'name': 'gold'}, {
            key: value for key, value in self.shown(self.made(' gold ')).items()
            if key != 'id'})

    def test_spec_numbers_stored_as_text_and_null_kept(self):
        found = self.made(total_iops_sec=7, mine=None)
        self.assertEqual({'total_iops_sec': '7', 'mine': None}, self.shown(found)['specs'])

    def test_duplicate_qos_specs_name_rejected(self):
        self.made()
        self.assert_fault(409, 'QoS Specs gold already exists.', self.create())
        self.made('Gold')

    def test_malformed_qos_specs_rejected(self):
        found = self.made(**SPECS)
        for fields in ({'name': ''}, {'name': ' '}, {'name': None}, {'name': 'x' * 256},
                       {'consumer': 'middle'}, {'consumer': None}, {'a/b': 'x'}, {'x': []},
                       {'x': {}}, {'x': True}, {'x' * 256: 'y'}, {'x': 'y' * 256},
                       {'total_iops_sec_per_gb': 'many'}, {'read_bytes_sec_max': '-1'}):
            with self.subTest(fields=fields):
                self.assertEqual(400, self.create(**{'name': 'new', **fields}).status)
                if 'name' not in fields:
                    self.assertEqual(400, self.put(found, **fields).status)
        for body in ({}, {'qos_specs': []}, {'qos_specs': {}},
                     {'qos_specs': {'name': 'x'}, 'y': 1}):
            with self.subTest(body=body):
                self.assertEqual(400, self.admin.post('/qos-specs', body).status)
        for keys in ([''], ['x', 'x'], 'x', [1], None):
            with self.subTest(keys=keys):
                self.assertEqual(400, self.admin.put(f'/qos-specs/{found}/delete_keys',
                                                     {'keys': keys}).status)
        self.assertEqual(SPECS, self.shown(found)['specs'])
        self.assertEqual(1, len(self.admin.get('/qos-specs').body['qos_specs']))

    def test_delete_of_missing_key_keeps_other_keys(self):
        found = self.made(**SPECS)
        self.assert_fault(404, f'QoS spec {found} has no spec with key mine.',
                          self.delete_keys(found, 'total_iops_sec', 'mine'))
        self.assertEqual(SPECS, self.shown(found)['specs'])

    def test_unknown_qos_specs_not_found(self):
        path, body = f'/qos-specs/{base.ABSENT}', {'qos_specs': {}}
        kind = self.kind()
        for reply in (self.admin.get(path), self.admin.put(path, body), self.admin.delete(path),
                      self.admin.delete(f'{path}?force=true'),
                      self.delete_keys(base.ABSENT, 'x'),
                      self.admin.get(f'{path}/associations'),
                      self.act(base.ABSENT, 'associate', kind),
                      self.act(base.ABSENT, 'disassociate', kind),
                      self.act(base.ABSENT, 'disassociate_all'),
                      self.admin.get(f'/qos-specs?marker={base.ABSENT}')):
            self.assert_fault(404, f'No such QoS spec {base.ABSENT}.', reply)

    def test_qos_specs_list_filtered_sorted_paginated(self):
        one, two, three = (self.made(name, consumer=consumer) for name, consumer in (
            ('b', 'both'), ('a', 'front-end'), ('c', 'both')))
        for query, ids in (
                ('', [three, two, one]), ('?limit=2', [three, two]),
                (f'?marker={two}', [one]), ('?sort=name:asc', [two, one, three]),
                ('?sort_key=consumer&sort_dir=asc&limit=2', None), ('?name=a', [two]),
                ('?consumer=both', [three, one]), (f'?id={one}', [one]), ('?x=y', []),
                ('?limit=0', [])):
            with self.subTest(query=query):
                reply = self.admin.get(f'/qos-specs{query}')
                self.assert_status(200, reply)
                self.assertEqual({'qos_specs'}, reply.body.keys())
                found = [found['id'] for found in reply.body['qos_specs']]
                self.assertEqual(ids or found, found)
        for query in ('?limit=x', '?sort=specs', '?offset=-1'):
            self.assertEqual(400, self.admin.get(f'/qos-specs{query}').status)


class TypesTest(QosTestCase):

    def test_associate_and_disassociate_types(self):
        gold, kinds = self.made(), [self.kind('one'), self.kind('two'), self.kind('three')]
        self.assertEqual([], self.types(gold))
        for kind in kinds:
            reply = self.act(gold, 'associate', kind)
            self.assert_status(202, reply)
            self.assertEqual('', reply.text)
        self.assertEqual([{'association_type': 'volume_type', 'name': kind.name, 'id': kind.id}
                          for kind in kinds], self.types(gold))
        listed = {kind['name']: kind['qos_specs_id'] for kind in
                  self.admin.get('/types').body['volume_types']}
        self.assertEqual({'one': gold, 'two': gold, 'three': gold},
                         {name: listed[name] for name in ('one', 'two', 'three')})
        self.assertNotIn('qos_specs_id', self.http.as_member.get(
            f'/types/{kinds[0].id}').body['volume_type'])
        self.assert_status(202, self.act(gold, 'disassociate', kinds[0]))
        self.assertEqual([None, gold, gold], [self.specs_of(kind) for kind in kinds])
        self.assert_status(202, self.act(gold, 'disassociate_all'))
        self.assertEqual([None] * 3, [self.specs_of(kind) for kind in kinds])
        self.assertEqual([], self.types(gold))

    def test_association_actions_idempotent(self):
        gold, kind = self.made(), self.kind()
        for verb in ('associate', 'disassociate', 'disassociate_all'):
            for _ in range(2):
                self.assert_status(202, self.act(gold, verb, kind))

    def test_second_association_of_type_rejected(self):
        gold, other, kind = self.made(), self.made('silver'), self.kind()
        self.given(gold, kind)
        self.assert_fault(400, f'Type {kind.id} is already associated with another qos specs: '
                               f'{gold}', self.act(other, 'associate', kind))
        self.assert_status(202, self.act(other, 'disassociate', kind))
        self.assertEqual(gold, self.specs_of(kind))

    def test_association_needs_existing_type(self):
        gold = self.made()
        for verb in ('associate', 'disassociate'):
            for query in ('?x=y', '?vol_type_id='):
                self.assert_fault(400, 'Volume Type id must not be None.',
                                  self.act(gold, verb, query=query))
            self.assert_fault(404, base.ABSENT,
                              self.act(gold, verb, query=f'?vol_type_id={base.ABSENT}'))

    def test_delete_of_associated_specs_needs_force(self):
        gold, kind = self.made(), self.kind()
        self.given(gold, kind)
        for query in ('', '?force=False', '?force=0'):
            self.assert_fault(400, 'Qos specs still in use.',
                              self.admin.delete(f'/qos-specs/{gold}{query}'))
        self.assertEqual(400, self.admin.delete(f'/qos-specs/{gold}?force=maybe').status)
        self.assertEqual(gold, self.specs_of(kind))
        self.assert_status(202, self.admin.delete(f'/qos-specs/{gold}?force=True'))
        self.assertIsNone(self.specs_of(kind))

    def test_delete_of_type_keeps_qos_specs(self):
        gold, kind = self.made(), self.kind()
        self.given(gold, kind)
        self.assert_status(202, self.admin.delete(f'/types/{kind.id}'))
        self.assertEqual([], self.types(gold))
        self.assert_status(202, self.admin.delete(f'/qos-specs/{gold}'))

    def test_associate_type_in_use_accepted(self):
        kind = self.kind('used')
        self.volume(volume_type='used')
        self.given(self.made(consumer='both', **SPECS), kind)


class ConsumerTest(QosTestCase):
    """QoS specs in the connection info of an attachment."""

    def setUp(self):
        super().setUp()
        self.limited = self.kind('limited')

    def consumer_specs(self, consumer='front-end', size=1, **specs):
        self.gold = self.made(consumer=consumer, **specs)
        self.given(self.gold, self.limited)
        self.volume_id = self.volume(volume_type='limited', size=size)
        self.attachment_id = self.reserve(self.volume_id)
        return self.connect(self.attachment_id)['connection_info']['qos_specs']

    def again(self):
        return self.admin.get(f'/attachments/{self.attachment_id}').body[
            'attachment']['connection_info']['qos_specs']

    def test_qos_specs_shown_by_consumer(self):
        for consumer, expected in (('front-end', SPECS), ('both', SPECS), ('back-end', None)):
            with self.subTest(consumer=consumer):
                self.assertEqual(expected, self.consumer_specs(consumer, **SPECS))
                self.assertEqual(expected, self.again())
                self.admin.delete(f'/qos-specs/{self.gold}?force=true')

    def test_qos_limits_scaled_by_volume_size(self):
        consumer_specs = {'total_iops_sec': 90, 'read_iops_sec': 50, 'write_iops_sec': 20}
        self.assertEqual(consumer_specs, self.consumer_specs(
            size=3, total_iops_sec_per_gb=30, read_iops_sec_per_gb=1,
            read_iops_sec_per_gb_min=50, write_iops_sec_per_gb='100', write_iops_sec_max='20'))

    def test_qos_specs_null_without_association(self):
        attachment_id = self.reserve(self.volume())
        self.assertIsNone(self.connect(attachment_id)['connection_info']['qos_specs'])

    def test_attached_volume_keeps_qos_specs_until_reconnect(self):
        connector = make.connector()
        self.assertEqual(SPECS, self.consumer_specs(**SPECS))
        self.put(self.gold, total_iops_sec='9')
        self.assertEqual(SPECS, self.again())
        again = self.connect(self.attachment_id, connector)
        self.assertEqual({**SPECS, 'total_iops_sec': '9'}, again['connection_info']['qos_specs'])
        self.admin.delete(f'/qos-specs/{self.gold}?force=true')
        again = self.connect(self.attachment_id, connector)
        self.assertIsNone(again['connection_info']['qos_specs'])

    def test_initialize_connection_returns_qos_specs(self):
        gold = self.made(consumer='both', **SPECS)
        self.given(gold, self.limited)
        path = f'/volumes/{self.volume(volume_type="limited")}/action'
        self.http.as_member.post(path, {'os-reserve': None})
        reply = self.http.as_member.post(path, {'os-initialize_connection': {
            'connector': make.connector()}})
        self.assert_status(200, reply)
        self.assertEqual(SPECS, reply.body['connection_info']['data']['qos_specs'])
