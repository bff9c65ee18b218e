"""Resources that are not offered: their lists are empty, and a create names the reason."""
from blockattach.storage.api.resources import not_offered
from blockattach.tests.api import base

# First microversion that has the resource, and the one before it.
SINCE = {'backups': ('3.0', None), 'groups': ('3.13', '3.12'), 'group_types': ('3.11', '3.10'),
         'group_snapshots': ('3.14', '3.13'), 'consistencygroups': ('3.0', None),
         'cgsnapshots': ('3.0', None)}
ABSENT = {'backups': 'Backup', 'groups': 'Group', 'group_types': 'Group type',
          'group_snapshots': 'GroupSnapshot', 'consistencygroups': 'ConsistencyGroup',
          'cgsnapshots': 'CgSnapshot'}


class NotOfferedTest(base.ApiTestCase):

    def test_every_unoffered_resource_covered(self):
        self.assertEqual(SINCE.keys(), {noun.key for noun in not_offered.NOUNS})

    def test_unoffered_resource_lists_empty(self):
        for key, (since, _) in SINCE.items():
            for path in (f'/{key}', f'/{key}/detail', f'/{key}?all_tenants=1&limit=5'):
                if path == '/group_types/detail':
                    continue
                for version in (since, '3.71'):
                    with self.subTest(path=path, version=version):
                        reply = self.http.as_reader.get(path, version=version)
                        self.assert_status(200, reply)
                        self.assertEqual({key: []}, reply.body)

    def test_backups_count_shown_from_3_45(self):
        for version, more in (('3.44', {}), ('3.45', {'count': 0})):
            reply = self.http.as_admin.get('/backups/detail?with_count=true', version=version)
            self.assertEqual({'backups': [], **more}, reply.body)
        self.assert_fault(400, 'with_count', self.http.as_reader.get('/backups?with_count=x'))

    def test_unoffered_resource_list_filters(self):
        for path, since in (('/backups', '3.31'), ('/backups/detail', '3.31'), ('/groups', '3.31'),
                            ('/group_snapshots', '3.31'), ('/group_types', None),
                            ('/cgsnapshots', None), ('/consistencygroups', None)):
            for version in ('3.30', '3.31', '3.71'):
                with self.subTest(path=path, version=version):
                    reply = self.http.as_reader.get(f'{path}?zz=1', version=version)
                    if since is None or version == '3.30':
                        self.assert_status(200, reply)
                    else:
                        self.assert_fault(400, 'Invalid filters zz are found', reply)
            self.assert_status(200, self.http.as_admin.get(f'{path}?zz=1'))
            self.assert_status(200, self.http.as_reader.get(
                f'{path}?{"name=x&" if since else ""}sort=name&limit=1'))

    def test_unoffered_resources_not_found_before_their_version(self):
        for key, (_, before) in SINCE.items():
            for method, path in (('GET', f'/{key}'), ('POST', f'/{key}')) if before else ():
                with self.subTest(method, path=path):
                    self.assert_fault(404, 'The resource could not be found.',
                                      self.http.as_admin.send(method, path, version=before))

    def test_unoffered_resource_ids_not_found(self):
        for key, kind in ABSENT.items():
            for method in ('GET', 'DELETE'):
                for persona in (self.http.as_admin, self.http.as_nobody):
                    with self.subTest(method, key=key):
                        self.assert_fault(404, f'{kind} {base.ABSENT} could not be found.',
                                          persona.send(method, f'/{key}/{base.ABSENT}'))
            for method, path in (('PUT', f'/{key}/x'), ('POST', f'/{key}/x/action'),
                                 ('POST', f'/{key}/x/restore'), ('PATCH', f'/{key}')):
                with self.subTest(method, path=path):
                    self.assert_fault(404, 'The resource could not be found.',
                                      self.http.as_admin.send(method, path))

    def test_create_of_unoffered_resource_rejected_with_reason(self):
        for path, body, what in (
                ('/backups', {'backup': {'volume_id': base.ABSENT}}, 'backups'),
                ('/backups', {}, 'backups'), ('/backups', b'{', 'backups'),
                ('/backups/import_record', {'backup-record': {}}, 'backups'),
                ('/groups', {'group': {}}, 'groups'),
                ('/groups/action', {'create-from-src': {}}, 'groups'),
                ('/group_types', {'group_type': {'name': 'x'}}, 'group types'),
                ('/group_snapshots', {'group_snapshot': {}}, 'group snapshots'),
                ('/consistencygroups', {'consistencygroup': {}}, 'consistency groups'),
                ('/consistencygroups/create_from_src', {}, 'consistency groups'),
                ('/cgsnapshots', {}, 'consistency group snapshots')):
            with self.subTest(path=path, body=body):
                self.assert_fault(400, f': {what} are not supported by this service.',
                                  self.http.as_admin.post(path, body))
