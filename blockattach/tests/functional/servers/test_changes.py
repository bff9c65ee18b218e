"""Updates of the name, description and metadata of a server."""
from blockattach.tests.functional.servers import cloud

OTHER_PROJECT = '0' * 31 + '9'
MEMBER = 'member,reader'


class ChangeTestCase(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.made = self.create(metadata={'kept': 'as it is'})
        self.path = f'/servers/{self.made}'

    def change(self, status=200, version=cloud.LATEST, **fields):
        return self.asked(status, 'PUT', self.path, {'server': fields}, version=version)

    def assert_refused(self, status, method, path, body=None, **more):
        """Check that the request is rejected and leaves the server unchanged."""
        before = self.server(self.made)
        with self.subTest(path, body=body, **more):
            self.asked(status, method, path, body, **more)
            self.assertEqual(before, self.server(self.made))


class NameTest(ChangeTestCase):

    def seen(self):
        shown = self.server(self.made)
        return shown['name'], shown['description']

    def test_update_server_changes_name_and_description(self):
        before = self.server(self.made)
        self.assertEqual(('web', None), self.seen())
        shown = self.change(name='db', description='for all')['server']
        self.assertEqual(('db', 'for all'), self.seen())
        self.assertEqual({**before, 'name': 'db', 'description': 'for all',
                          'OS-EXT-SRV-ATTR:hostname': 'db'}, shown)
        self.change(name='x' * 255)
        self.assertEqual(('x' * 255, 'for all'), self.seen())
        self.change(description=None)
        self.assertEqual(('x' * 255, None), self.seen())
        self.change()
        self.assertEqual([self.made], [
            one['id'] for one in self.asked(200, 'GET', '/servers?name=xxx')['servers']])

    def test_update_server_before_2_75_returns_fewer_keys(self):
        self.change(name='db')
        for version, more in (('2.18', {'locked'}), ('2.74', {
                'locked', 'description', 'tags', 'trusted_image_certificates', 'server_groups',
                'locked_reason'})):
            shown = self.change(version=f'compute {version}', name='db')['server']
            self.assertEqual(
                {'id', 'name', 'status', 'image', 'flavor', 'user_id', 'tenant_id', 'created',
                 'updated', 'progress', 'metadata', 'links', 'addresses', 'hostId', 'accessIPv4',
                 'accessIPv6', 'OS-DCF:diskConfig'} | more, set(shown))

    def test_create_server_description_needs_2_19(self):
        for version, description in (('compute 2.18', 'web'), ('compute 2.19', 'for all')):
            self.made = self.asked(202, 'POST', '/servers', {'server': {
                'name': 'web', 'imageRef': 'image', 'flavorRef': '1',
                'description': 'for all'}}, version=version)['server']['id']
            self.cloud.settle()
            self.assertEqual(('web', description), self.seen())
            self.assertNotIn('description', self.asked(
                200, 'GET', f'/servers/{self.made}', version='compute 2.18')['server'])

    def test_update_server_with_invalid_fields_rejected(self):
        for fields in ({'name': ''}, {'name': ' '}, {'name': ' web'}, {'name': 'web '},
                       {'name': 'w\neb'}, {'name': 'web\n'}, {'name': 'x' * 256}, {'name': None},
                       {'name': 5}, {'description': 'x' * 256}, {'description': 5},
                       {'name': 'new', 'zz': 1}, {'name': 'new', 'accessIPv4': '192.0.2.1'},
                       {'name': 'new', 'metadata': {}}, {'name': 'new', 'hostname': 'new'}):
            self.assert_refused(400, 'PUT', self.path, {'server': fields})
        self.assert_refused(400, 'PUT', self.path, {'server': {'description': 'x'}},
                            version='compute 2.18')
        self.assert_refused(400, 'PUT', self.path, {'name': 'new'})
        self.assert_refused(403, 'PUT', self.path, {'server': {'name': 'new'}}, roles='reader')
        self.assert_refused(404, 'PUT', self.path, {'server': {'name': 'new'}}, roles=MEMBER,
                            project=OTHER_PROJECT)
        self.assert_refused(404, 'PUT', f'/servers/{cloud.new_id()}', {'server': {'name': 'new'}})


class MetadataTest(ChangeTestCase):

    def setUp(self):
        super().setUp()
        self.path = f'{self.path}/metadata'

    def assert_there(self, **items):
        self.assertEqual({'metadata': items}, self.asked(200, 'GET', self.path))
        self.assertEqual(items, self.server(self.made)['metadata'])
        [shown] = self.asked(200, 'GET', '/servers/detail')['servers']
        self.assertEqual(items, shown['metadata'])
        for key, value in items.items():
            self.assertEqual({'meta': {key: value}}, self.asked(
                200, 'GET', f'{self.path}/{key}'))

    def put(self, method, path='', **body):
        return self.asked(200, method, f'{self.path}{path}', body)

    def test_server_metadata_created_updated_deleted(self):
        self.assert_there(kept='as it is')
        there = {'kept': 'anew', 'role': 'web'}
        self.assertEqual({'metadata': there}, self.put('POST', metadata=there))
        self.assert_there(**there)
        self.assertEqual({'meta': {'role': 'Größe'}}, self.put('PUT', '/role', meta={
            'role': 'Größe'}))
        self.assert_there(kept='anew', role='Größe')
        self.asked(204, 'DELETE', f'{self.path}/kept')
        self.assert_there(role='Größe')
        self.assertEqual({'metadata': {'a': ''}}, self.put('PUT', metadata={'a': ''}))
        self.assert_there(a='')
        self.put('PUT', metadata={})
        self.assert_there()

    def test_servers_of_one_request_have_separate_metadata(self):
        self.create(name='many', max_count=2, metadata={'a': 'b'})
        one, other = (found['id'] for found in self.asked(200, 'GET', '/servers?name=many')[
            'servers'])
        self.asked(204, 'DELETE', f'/servers/{one}/metadata/a')
        self.assertEqual(({}, {'a': 'b'}), (
            self.server(one)['metadata'], self.server(other)['metadata']))

    def test_server_metadata_with_invalid_items_rejected(self):
        for items in ({'a': 5}, {'a': None}, {'': 'x'}, {'a' * 256: 'x'}, {'a': 'x' * 256},
                      {'a/b': 'x'}, {'a\n': 'x'}, [], None):
            for method in ('POST', 'PUT'):
                self.assert_refused(400, method, self.path, {'metadata': items})
            self.create(metadata=items, status=400)
        self.assertEqual(1, len(self.asked(200, 'GET', '/servers')['servers']))
        for body in ({'meta': {'b': 'x'}}, {'meta': {'kept': 'x', 'b': 'x'}}, {'meta': {}},
                     {'meta': {'kept': 5}}, {'metadata': {'kept': 'x'}}):
            self.assert_refused(400, 'PUT', f'{self.path}/kept', body)

    def test_server_metadata_beyond_128_items_forbidden(self):
        most = {f'key-{number}': 'x' * 255 for number in range(128)}
        self.assert_refused(403, 'POST', self.path, {'metadata': most})
        self.assert_refused(403, 'PUT', self.path, {'metadata': {**most, 'more': ''}})
        self.create(metadata={**most, 'more': ''}, status=403)
        self.assertEqual(1, len(self.asked(200, 'GET', '/servers')['servers']))
        self.put('PUT', metadata=most)
        self.assert_there(**most)
        self.assert_refused(403, 'PUT', f'{self.path}/more', {'meta': {'more': ''}})
        self.put('PUT', '/key-5', meta={'key-5': ''})
        self.assert_there(**{**most, 'key-5': ''})

    def test_unknown_server_metadata_key_not_found(self):
        for method in ('GET', 'DELETE'):
            self.assert_refused(404, method, f'{self.path}/absent')

    def test_update_metadata_of_shelved_server_rejected(self):
        self.act(self.made, 'os-stop')
        self.put('POST', metadata={'off': 'yes'})
        self.act(self.made, 'os-start')
        self.act(self.made, 'shelve')
        for method, path, body in (
                ('POST', '', {'metadata': {'a': 'b'}}), ('PUT', '', {'metadata': {}}),
                ('PUT', '/off', {'meta': {'off': 'no'}}), ('DELETE', '/off', None)):
            self.assert_refused(409, method, f'{self.path}{path}', body)
        self.assert_there(kept='as it is', off='yes')

    def test_server_metadata_of_other_project_not_found(self):
        for method, path, body in (
                ('GET', '', None), ('GET', '/kept', None), ('POST', '', {'metadata': {}}),
                ('PUT', '', {'metadata': {}}), ('PUT', '/kept', {'meta': {'kept': 'x'}}),
                ('DELETE', '/kept', None)):
            self.assert_refused(404, method, f'{self.path}{path}', body, roles=MEMBER,
                                project=OTHER_PROJECT)
            if method != 'GET':
                self.assert_refused(403, method, f'{self.path}{path}', body, roles='reader')
