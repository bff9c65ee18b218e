"""Hostile input to the compute API, which is rejected or read as intended."""
from blockattach.tests.functional.servers import test_bad_input


class HostileInputTest(test_bad_input.RefusedTestCase):

    def test_create_server_with_invalid_numbers_rejected(self):
        for words, fields in (
                ('min_count', {'min_count': '1' * 5000}), ('max_count', {'max_count': '9' * 5000}),
                ('max_count', {'max_count': 10 ** 30}), ('min_count', {'min_count': '\u0661'})):
            with self.subTest(words):
                self.refused_server(words, **fields)
        for index in ('x', '1' * 5000, 10 ** 30, '\u0661x', '1.5'):
            with self.subTest(str(index)[:20]):
                self.refused_server('boot_index', block_device_mapping_v2=[
                    self.mapped(), self.mapped(self.shared, boot_index=index)])

    def test_boolean_as_text_parsed_or_rejected(self):
        made = self.create(self.mapped(delete_on_termination='false'))
        self.asked(204, 'DELETE', f'/servers/{made}')
        self.cloud.settle()
        self.assertEqual('available', self.status_of_volume(self.plain))
        self.refused_server('delete_on_termination', block_device_mapping_v2=[
            self.mapped(delete_on_termination='perhaps')])

    def test_invalid_device_names_rejected(self):
        for name in ('vd/../../x', '/dev/vd\n', 'vd', 'vd' + 'a' * 253, 'vdb;x', 'sd\u0430',
                     '/dev//dev/vdb'):
            with self.subTest(name[:20]):
                self.refused_server('', block_device_mapping_v2=[
                    self.mapped(device_name=name)])
        made = self.create()
        self.refused(400, 'is invalid', 'POST', f'/servers/{made}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': self.plain, 'device': 'vd/../../x'}})

    def test_too_long_or_invalid_texts_rejected(self):
        for fields in ({'name': 'n' * 255, 'max_count': 2},
                       {'name': '\ud800'}, {'imageRef': '\ud800'},
                       {'block_device_mapping_v2': [self.mapped(tag='t' * 61)]},
                       {'block_device_mapping_v2': [self.mapped(tag='\ud800')]}):
            with self.subTest(str(fields)[:30]):
                self.refused_server('', **fields)
        made = self.create()
        self.refused(400, 'tag', 'POST', f'/servers/{made}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': self.plain, 'tag': 't' * 61}})

    def test_incomplete_external_event_rejected(self):
        made = self.create()
        self.asked(207, 'POST', '/os-server-external-events', {'events': [
            {'name': 'volume-extended', 'server_uuid': made}]})
        self.asked(400, 'POST', '/os-server-external-events', {'events': [
            {'name': 'volume-extended', 'server_uuid': made, 'tag': '\ud800'}]})

    def test_malformed_queries_and_paths_are_no_server_error(self):
        made = self.create()
        for query in ('name=%ff', 'status=%ed%a0%80', 'marker=%00', 'host=%ed%a0%80',
                      'reservation_id=%ed%a0%80', 'project_id=%ff&all_tenants=1', 'limit=-1',
                      'limit=x', 'limit=%D9%A1'):
            with self.subTest(query):
                self.assertLess(self.ask('GET', f'/servers/detail?{query}')[0], 500)
        for path in ('/servers/%ed%a0%80', f'/servers/{made}/os-volume_attachments/%ff',
                     '/flavors/%ff', '/os-services?host=%ff'):
            with self.subTest(path):
                self.assertLess(self.ask('GET', path)[0], 500)

    def test_malformed_action_bodies_rejected(self):
        made = self.create()
        for body in (None, [], 'x', {}, {'os-stop': None, 'os-start': None}, {'unshelve': 'x'},
                     {'unshelve': []}, {'resize': None}, {'resize': {'flavorRef': '\ud800'}},
                     {'evacuate': None}, {'os-migrateLive': None}, {'rebuild': None},
                     {'rebuild': {'imageRef': {}}}, {'migrate': {'host': '\ud800'}},
                     {'migrate': {'host': ''}}):
            with self.subTest(str(body)):
                status = self.ask('POST', f'/servers/{made}/action', body)[0]
                self.assertTrue(400 <= status < 500, status)
        self.cloud.settle()
        self.assertEqual('ACTIVE', self.server(made)['status'])

    def test_unshelve_to_host_needs_admin(self):
        made = self.create()
        self.act(made, 'shelve')
        self.act(made, 'shelveOffload')
        for host in ('host-a', 'nowhere'):
            self.refused(403, '', 'POST', f'/servers/{made}/action', {'unshelve': {'host': host}},
                         roles='member,reader')
        self.act(made, 'unshelve', {'host': 'host-a'})
