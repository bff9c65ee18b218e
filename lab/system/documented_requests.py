"""Requests from the API reference and the OpenAPI document, with ids of existing resources."""
import copy
import json
import re
import urllib.parse
import uuid
from typing import Any
from typing import NamedTuple

import schemathesis
from hypothesis import strategies as st

from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.storage.drivers import base as drivers
from blockattach.tests.api import base
from blockattach.tests.api import test_transfers
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.rules import sources

EXAMPLES = 'doc/source/user/api_examples.json'
VERSION = 'OpenStack-API-Version'
LATEST = (f'volume {http.LATEST}',
          f'volume {http.LATEST}, blockattach {versions.EXTENSION_MAXIMUM}')
OLDER = tuple(f'volume 3.{minor}' for minor in range(int(http.LATEST.partition('.')[2])))
EXAMPLE = 'example'
MODES = (EXAMPLE, schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
USUALLY = (True,) * 9 + (False,)
PERSONAS = ('admin', 'admin', 'member', 'member', 'reader', 'stranger')
ENOUGH = 4
"""Number of resources of each kind that always exist."""
SOURCES = ('snapshot_id', 'source_volid', 'imageRef', 'image_id', 'backup_id')
NOWHERE = ('consistencygroup_id', 'group_id', 'availability_zone', 'multiattach', 'cluster',
           'cluster_name')
NOUNS = {
    'volume_uuid': 'volumes', 'volume_id': 'volumes', 'source_volid': 'volumes',
    'new_volume': 'volumes', 'snapshot_id': 'snapshots', 'attachment_id': 'attachments',
    'imageRef': 'images', 'image_id': 'images', 'volume_type': 'types', 'new_type': 'types',
    'vol_type_id': 'types', 'host': 'hosts', 'project': 'projects', 'auth_key': 'keys',
    'source-name': 'references', 'binary': 'binaries', 'resource': 'resources'}
"""Kinds of resources that keys of a body or a query refer to."""
QUERIES = st.dictionaries(
    # Lists read more query parameters than the document describes, for example filters.
    st.sampled_from(('limit', 'marker', 'offset', 'sort', 'sort_key', 'sort_dir', 'all_tenants',
                     'with_count', 'name', 'status', 'volume_id', 'host', 'metadata', 'size',
                     'created_at', 'bootable', 'is_public', 'extra_specs', 'detail', 'usage',
                     'volume_type', 'force', 'cascade', 'zz', 'name~', 'vol_type_id', 'binary',
                     'resource', 'project_id')),
    st.one_of(st.sampled_from(('', '0', '1', '-1', 'true', 'None', 'created_at:asc', 'id:desc',
                               base.ABSENT, '{"a": "b"}', 'gt:2026-01-01T00:00:00', '1' * 40)),
              st.text(max_size=20)),
    max_size=3)
# Query parameters without which these requests are refused before anything else is checked.
ASKED_FOR = {'associate': 'vol_type_id', 'disassociate': 'vol_type_id', 'os-volume-manage': 'host',
             'manageable_volumes': 'host', 'os-snapshot-manage': 'host',
             'manageable_snapshots': 'host'}


class Things:
    """Existing resources that requests refer to, created again when requests have deleted them.

    :ivar found: ids and names by kind
    """

    def __init__(self, test, image_id):
        """
        :param test: test case of the class `base.ApiTestCase`
        """
        self._test = test
        self._listed = [row.path[1:] for row in routes.operations()
                        if row.method == 'GET' and not row.root and row.path.count('/') == 1]
        self._images = [image_id]
        self._references = 0
        self.found = {}

    def look(self):
        """List the existing resources and create the missing ones."""
        self._put_in_order()
        free, used = self._volumes('available'), self._volumes('in-use')
        while len(used) < ENOUGH:
            used.append(self._volume(multiattach=len(used) % 2 == 1))
            self._test.attached(used[-1])
        while len(free) < ENOUGH:
            free.append(self._volume())
        self.found = {
            **{noun: self._ids(noun) for noun in self._listed},
            'volumes': [one for pair in zip(free, used, strict=False) for one in pair],
            'images': self._images, 'hosts': [http.POOL, http.HOST], 'os-hosts': [http.HOST],
            'capabilities': [http.HOST], 'binaries': ['cinder-volume', 'cinder-scheduler'],
            'clusters': ['cluster@fake'], 'extensions': ['backups', 'os-services'],
            'projects': [http.PROJECT, http.OTHER_PROJECT],
            'default-types': [http.PROJECT], 'os-quota-sets': [http.PROJECT],
            'os-quota-class-sets': ['default', 'other'], 'resources': ['volume', 'snapshot']}
        self.found['types'] = [*self._types(), *self.found['types'][:ENOUGH], 'default']
        self.found['qos-specs'] = self.found['qos-specs'][:ENOUGH] or [self._qos()]
        self.found['snapshots'].insert(0, self._snapshot(free[0]))
        self.found['references'] = [self._reference(), *self.found['volumes']]
        offered = test_transfers.TransfersTest.offer(self._test, self._volume())
        self.found['keys'] = [offered['auth_key']]
        for path in test_transfers.PATHS:
            self.found[path[1:]] = [offered['id']]

    def _put_in_order(self):
        """Undo requests that disable a service or lower a quota. Other requests depend on them."""
        admin, service = self._test.http.as_admin, {'host': http.HOST, 'binary': 'cinder-volume'}
        limits = {'volumes': -1, 'snapshots': -1, 'gigabytes': -1, 'per_volume_gigabytes': -1}
        for path, body in (
                ('/os-services/enable', service), ('/os-services/thaw', {'host': http.HOST}),
                ('/os-quota-class-sets/default', {'quota_class_set': limits})):
            self._test.assert_status(200, admin.put(path, body))
        for project_id in (http.PROJECT, http.OTHER_PROJECT):
            self._test.assert_status(200, admin.delete(f'/os-quota-sets/{project_id}'))

    def _ids(self, noun):
        every = 'is_public=None' if noun == 'types' else 'all_tenants=1'
        reply = self._test.http.as_admin.get(f'/{noun}?{every}')
        return [one['id'] for listed in (reply.body or {}).values() if isinstance(listed, list)
                for one in listed[:20] if isinstance(one, dict) and 'id' in one]

    def _volumes(self, status):
        found = self._test.http.as_member.get(f'/volumes?limit=10&status={status}')
        return [one['id'] for one in found.body['volumes']]

    def _volume(self, multiattach=False):
        kind = make.volume_type(self._test.http.database, multiattach=multiattach)
        return self._test.volume(volume_type=kind.name, metadata={'owner': 'lab'})

    def _made(self, path, body, persona=None):
        """Send a request that must succeed, and return the value of the first key of the body."""
        reply = (persona or self._test.http.as_admin).post(path, body)
        self._test.assertLess(reply.status, 300, reply.text)
        return next(iter(reply.body.values()))

    def _types(self):
        """Yield the ids of two new types without volumes. The second one is encrypted."""
        for _ in range(2):
            made = self._made('/types', {'volume_type': {
                'name': uuid.uuid4().hex, 'os-volume-type-access:is_public': False,
                'extra_specs': {'discard': 'yes'}}})['id']
            yield made
        self._made(f'/types/{made}/encryption', {'encryption': {
            'provider': 'luks', 'control_location': 'front-end'}})

    def _qos(self):
        return self._made('/qos-specs', {'qos_specs': {'name': uuid.uuid4().hex, 'a': 'b'}})['id']

    def _snapshot(self, volume_id):
        made = self._made('/snapshots', {'snapshot': {
            'volume_id': volume_id, 'metadata': {'owner': 'lab'}}}, self._test.http.as_member)
        return made['id']

    def _reference(self):
        """Create a resource on the backend that is no volume, and return its name."""
        self._references += 1
        name = f'disk-{self._references}'
        self._test.http.manager.backend.fake_store.create(
            drivers.StoredVolume(name, name, 1, 'pool'))
        return name


class Example(NamedTuple):
    """Example of an operation in the API reference.

    :ivar keys: values of the variables ``key`` in the path
    """

    body: Any
    query: dict[str, str]
    keys: dict[str, str]

    @classmethod
    def of(cls, row, request):
        """Return the example of an operation from the request in the reference."""
        path, _, query = request['path'].partition('?')
        place = re.sub('{key}', '(?P<key>[^/]+)', re.sub(r'{(?!key)\w+}', '[^/]+', row.path))
        return cls(request['body'], dict(urllib.parse.parse_qsl(query)),
                   re.search(f'{place}$', path).groupdict())


class Requests:
    """Generator of requests.

    :ivar things: resources that the requests refer to
    """

    def __init__(self, openapi, api, things):
        """
        :param openapi: module ``tools/docs/print_openapi.py``
        """
        self._api = api
        self.things = things
        examples = json.loads((sources.ROOT / EXAMPLES).read_text('utf-8'))
        self._documented = {row.name: (self._alone(openapi, row),
                                       Example.of(row, examples[row.name]['request']))
                            for row in routes.operations()}
        self._connector = make.connector()

    def _alone(self, openapi, row):
        """Return the schema of an operation alone, since several actions share one path."""
        path = row.path if row.root else f'/v3/{{project_id}}{row.path}'
        schema = schemathesis.openapi.from_dict({
            **openapi.described(),
            'paths': {path: {row.method.lower(): openapi.one(path, row, versions.MAXIMUM)}}})
        schema.app = self._api
        return schema[path][row.method]

    def draw(self, data, row):
        """Draw a request to an operation."""
        documented, example = self._documented[row.name]
        mode = data.draw(st.sampled_from(MODES))
        case = data.draw(documented.as_strategy(generation_mode=(
            schemathesis.GenerationMode.POSITIVE if mode == EXAMPLE else mode)))
        usual = data.draw(st.sampled_from(USUALLY))
        persona = getattr(self._api, f'as_{data.draw(st.sampled_from(PERSONAS))}')
        words = row.path.split('/')
        if row.method in ('GET', 'DELETE'):
            query = data.draw(QUERIES)
            case.query = self._named(data, example.query if mode == EXAMPLE else query)
            asked = ASKED_FOR.get(words[-1]) or ASKED_FOR.get(words[1])
            if asked and usual:
                case.query[asked] = self._pick(data, NOUNS[asked])
        headers = {'X-Auth-Token': persona.token}
        if isinstance(case.path_parameters, dict) and usual:
            self._place(data, case.path_parameters, words[1], persona)
            case.path_parameters.update(example.keys)
        if mode == EXAMPLE and example.body is not None:
            case.body = copy.deepcopy(example.body)
        if usual:
            headers[VERSION] = data.draw(st.sampled_from((*LATEST * len(OLDER), *OLDER)))
            self._name_what_exists(data, case.body)
        case.headers = {**(case.headers or {}), **headers}
        return case

    def _place(self, data, parameters, noun, persona):
        parameters['project_id'] = persona.project_id
        for key in parameters.keys() - {'project_id'}:
            parameters[key] = 'provider' if key == 'encryption_id' else self._pick(data, noun)

    def _pick(self, data, noun):
        """Draw an existing resource of a kind.

        Only a number is drawn, independent of the resources, as hypothesis requires that repeated
        draws are alike.
        """
        number = data.draw(st.integers(0, 2 ** 16))
        known = self.things.found.get(noun) or [base.ABSENT]
        return known[number % len(known)]

    def _named(self, data, query):
        return {key: self._pick(data, NOUNS[key]) if key in NOUNS
                and data.draw(st.sampled_from(USUALLY)) else value
                for key, value in query.items()}

    def _name_what_exists(self, data, body):
        """Replace random ids in a body by those of existing resources."""
        if not isinstance(body, dict):
            return
        if 'volume' in body and isinstance(body['volume'], dict):
            self._one_source(data, body['volume'])
        for key, value in list(body.items()):
            if key in NOWHERE and data.draw(st.sampled_from(USUALLY)):
                del body[key]
            elif key in NOUNS and isinstance(value, str):
                body[key] = self._pick(data, NOUNS[key])
            elif key == 'connector' and isinstance(value, dict):
                value.setdefault('initiator', self._connector['initiator'])
                value['host'] = self._connector['host']
            elif key == 'ref':
                body[key] = {'source-name': self._pick(data, 'references')}
            elif key in ('size', 'new_size') and data.draw(st.sampled_from(USUALLY)):
                body[key] = data.draw(st.integers(1, 4))
            else:
                self._name_what_exists(data, value)

    def _one_source(self, data, volume):
        kept = data.draw(st.sampled_from((None, *SOURCES)))
        for key in SOURCES:
            if key != kept:
                volume.pop(key, None)


def shown(case):
    """Return a description of a request for the message of a failure."""
    try:
        body = json.dumps(case.body)
    except TypeError:
        body = repr(case.body)
    return (f'{case.method} {case.formatted_path} {case.query!r} '
            f'{case.headers.get(VERSION)} {body[:500]}')
