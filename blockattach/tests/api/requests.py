"""Random requests, half of them valid, built from the declarations of the operations."""
import json
import urllib.parse

from blockattach.platform.http import operation
from blockattach.storage.api import routes
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

VERSIONS = ('3.71', 'latest', '3.54', '3.44', '3.27', '3.0', None)
NO_VERSIONS = ('3.72', '2.9', 'x', '', '3', '3.71, volume 3.0', '\u00b3.1', '3.' + '9' * 40)
TEXTS = (
    '', ' ', 'x', '0', '1', '-1', '1.5', '1e3', 'true', 'None', 'null', '{}', '[]', "{'a': 1}",
    '%', '%s', '\\', "'", '"', ';', ',', 'a,b', 'a:b', '\n', '\r\nX-Y: z', '\t', '\x7f', '\x1b[2J',
    '\u0661', '\u00e9', '\u202e', '\U0001f600', '..', '../x', 'a/b', '<is> True', '<in> x',
    'gt:2026-01-01', 'created_at:asc', 'iqn.2026-01.x:a', base.ABSENT, base.ABSENT.upper(),
    base.ABSENT.replace('-', ''), '9' * 30, 'x' * 255, 'x' * 256, 'x' * 300, '\u00e9' * 256)
VALUES = (None, True, False, 0, 1, -1, 1.0, 1.5, 1e308, 2 ** 31, 2 ** 63, 2 ** 64 - 1, -2 ** 63,
          [], {}, [[]], [None], {'': ''}, {'a': {'b': []}}, ['x'] * 50)
RAW = (b'', b'{', b'null', b'[]', b'"x"', b'1', b'\xff\xfe', b'{"a":1}{', b'\xef\xbb\xbf{}',
       b'{"\\ud800":1}', b'{"volume":{"size":1,"name":"\\ud800"}}', b'{"a":"\\u0000"}',
       b'[' * 3000, b'{"volume":{"size":1' + b'0' * 400 + b'}}', b'{"volume":{"size":NaN}}',
       b'x' * 120000)
PARAMETERS = (
    'limit', 'offset', 'marker', 'sort', 'sort_key', 'sort_dir', 'all_tenants', 'with_count',
    'force', 'cascade', 'detail', 'name', 'name~', 'status', 'status~', 'metadata', 'metadata~',
    'bootable', 'multiattach', 'size', 'size~', 'created_at', 'updated_at', 'id', 'volume_id',
    'instance_id', 'attach_status', 'project_id', 'is_public', 'extra_specs', 'resource_uuid',
    'resource_type', 'event_id', 'message_level', 'host', 'binary', 'volume_type',
    'availability_zone', 'group_id', 'consumes_quota', 'x', '')
HEADERS = ('Content-Type', 'Content-Length', 'X-Service-Token', 'X-OpenStack-Request-ID', 'Accept',
           'Idempotency-Key', 'Host', 'If-Match')
METHODS = ('HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'PUT', 'DELETE', 'POST')


class Requests:
    """Generator of random requests.

    ``ids`` has the ids of existing resources by noun, so that some requests find their resource.
    """

    def __init__(self, chance):
        self.chance = chance
        self.ids = {}
        self.operations = [row for row in routes.operations() if not row.root]

    def __iter__(self):
        while True:
            row = self.chance.choice(self.operations)
            version = self.chance.choice(NO_VERSIONS if self.chance.random() < 0.05 else VERSIONS)
            method = row.method if self.chance.random() < 0.97 else self.chance.choice(METHODS)
            path = urllib.parse.quote(self.path(row), safe='/') + self.query()
            yield method, path, self.body(row, version), version, self.headers()

    def path(self, row):
        noun = row.path.split('/')[1]
        return '/'.join(self.text(noun) if part.startswith('{') else part
                        for part in row.path.split('/'))

    def query(self):
        count = self.chance.choice((0, 0, 0, 1, 1, 2, 3))
        if not count:
            return '' if self.chance.random() < 0.98 else '?%ff=%&&=%00'
        return '?' + urllib.parse.urlencode(
            [(self.chance.choice(PARAMETERS), self.text()) for _ in range(count)])

    def headers(self):
        if self.chance.random() < 0.9:
            return {}
        value = self.text().encode('utf-8').decode('latin-1')
        return {self.chance.choice(HEADERS): ''.join(filter(str.isprintable, value))}

    def body(self, row, version):
        """Return a request body: None, bytes, or JSON that resembles the operation's schema."""
        if self.chance.random() < 0.05:
            return self.chance.choice(RAW)
        try:
            spoken = operation.V(*map(int, (version or '3.0').split('.')))
        except (TypeError, ValueError):
            spoken = operation.V(3, 71)
        schema = operation.at_version(row.body, spoken)
        if schema is None:
            return None
        # json.dumps writes more than the service accepts, for example NaN and lone surrogates.
        return json.dumps(self.like(schema)).encode()

    def like(self, schema):
        """Return a value that the schema accepts, with an invalid part now and then."""
        if self.chance.random() < 0.03:
            return self.anything()
        if 'enum' in schema:
            return self.chance.choice(schema['enum'])
        kinds = schema.get('type', 'any')
        kind = self.chance.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == 'object':
            return self.object_like(schema)
        if kind == 'array':
            return [self.like(schema['items']) for _ in range(self.chance.randrange(3))]
        if kind == 'string' and schema.get('format') == 'uuid':
            return self.identity()
        return {'integer': lambda: self.chance.choice((1, 2, 1000000)),
                'boolean': lambda: self.chance.random() < 0.5,
                'null': lambda: None, 'string': self.text}.get(kind, self.anything)()

    def object_like(self, schema):
        required = schema.get('required', ())
        made = {key: self.like(inner) for key, inner in schema.get('properties', {}).items()
                if key in required or self.chance.random() < 0.1}
        if 'initiator' in schema.get('properties', {}) and self.chance.random() < 0.7:
            made = make.connector(self.chance.choice('abc'))
        if self.chance.random() < 0.03:
            made[self.text()] = self.anything()
        return made

    def anything(self):
        return self.text() if self.chance.random() < 0.5 else self.chance.choice(VALUES)

    def identity(self, noun='volumes'):
        return self.chance.choice(self.ids.get(noun) or [base.ABSENT])

    def text(self, noun='volumes'):
        return self.identity(noun) if self.chance.random() < 0.6 else self.chance.choice(TEXTS)
