"""Routing of paths to operations, compared with Routes."""
import os
import random
import unittest

import routes

from blockattach.platform.http import dispatch
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V
from blockattach.tests.unit.http import tiny


def row(method, path, **more):
    return operation.Operation(method, path, tiny.index, **more)


ROWS = (
    row('GET', '/volumes'), row('POST', '/volumes'), row('GET', '/volumes/detail'),
    row('GET', '/volumes/summary'), row('GET', '/volumes/{id}'), row('DELETE', '/volumes/{id}'),
    row('GET', '/volumes/{id}/metadata'), row('GET', '/volumes/{id}/metadata/{key}'),
    row('GET', '/types'), row('GET', '/types/default'), row('GET', '/types/{id}'),
    row('GET', '/types/{type_id}/extra_specs'), row('PUT', '/types/{type_id}/extra_specs/{key}'),
    row('GET', '/scheduler-stats/get_pools'), row('GET', '/', root=True),
    row('GET', '/v3', root=True), row('GET', '/v3/', root=True),
    row('GET', '/healthcheck', root=True),
)


class MatchTest(unittest.TestCase):
    """Operation, variables and project of a path."""

    def setUp(self):
        self.table = dispatch.Table(ROWS)

    def meaning(self, method, path):
        match = self.table.match(method, path)
        return match and (match.route.operations[0].path, match.variables, match.project_id)

    def test_path_with_and_without_project_matched(self):
        for path, wanted in (
                ('/v3/volumes', ('/volumes', {}, None)),
                ('/v3/p/volumes', ('/volumes', {}, 'p')),
                ('/v3/volumes/detail', ('/volumes/detail', {}, None)),
                ('/v3/p/volumes/detail', ('/volumes/detail', {}, 'p')),
                ('/v3/volumes/v', ('/volumes/{id}', {'id': 'v'}, None)),
                ('/v3/p/volumes/v', ('/volumes/{id}', {'id': 'v'}, 'p')),
                ('/v3/volumes/v/metadata', ('/volumes/{id}/metadata', {'id': 'v'}, None)),
                ('/v3/p/volumes/v/metadata/k',
                 ('/volumes/{id}/metadata/{key}', {'id': 'v', 'key': 'k'}, 'p')),
                ('/v3/p/types/t/extra_specs',
                 ('/types/{type_id}/extra_specs', {'type_id': 't'}, 'p')),
                ('/v3/types/default', ('/types/default', {}, None)),
                ('/', ('/', {}, None)), ('/v3', ('/v3', {}, None)), ('/v3/', ('/v3/', {}, None)),
                ('/healthcheck', ('/healthcheck', {}, None)),
                ('/v3/scheduler-stats/get_pools', ('/scheduler-stats/get_pools', {}, None))):
            with self.subTest(path=path):
                self.assertEqual(wanted, self.meaning('GET', path))

    def test_literal_without_method_falls_back_to_variable(self):
        self.assertEqual(('/volumes/{id}', {'id': 'detail'}, None),
                         self.meaning('DELETE', '/v3/volumes/detail'))

    def test_noun_accepted_as_id_or_project(self):
        for method, path, wanted in (
                ('GET', '/v3/volumes/volumes', ('/volumes/{id}', {'id': 'volumes'}, None)),
                ('GET', '/v3/types/volumes', ('/types/{id}', {'id': 'volumes'}, None)),
                ('POST', '/v3/types/volumes', ('/volumes', {}, 'types')),
                ('GET', '/v3/volumes/types/default', ('/types/default', {}, 'volumes')),
                ('GET', '/v3/types/volumes/metadata',
                 ('/volumes/{id}', {'id': 'metadata'}, 'types')),
                ('GET', '/v3/{/volumes/{', ('/volumes/{id}', {'id': '{'}, '{'))):
            with self.subTest(method=method, path=path):
                self.assertEqual(wanted, self.meaning(method, path))

    def test_head_falls_back_to_get(self):
        self.table = dispatch.Table((*ROWS, row('HEAD', '/types/{name}')))
        for path, wanted in (('/v3/p/volumes/v', ('/volumes/{id}', {'id': 'v'}, 'p')),
                             ('/v3/types/t', ('/types/{name}', {'name': 't'}, None)),
                             ('/v3/types/', None)):
            with self.subTest(path=path):
                self.assertEqual(wanted, self.meaning('HEAD', path))

    def test_path_starting_with_variable_matched(self):
        self.table = dispatch.Table((*ROWS, row('GET', '/{noun}/of/{id}'),
                                     row('GET', '/{name}', root=True)))
        for path, wanted in (('/v3/x/of/y', ('/{noun}/of/{id}', {'noun': 'x', 'id': 'y'}, None)),
                             ('/v3/p/x/of/y', ('/{noun}/of/{id}', {'noun': 'x', 'id': 'y'}, 'p')),
                             ('/v3/of/volumes/v', ('/volumes/{id}', {'id': 'v'}, 'of')),
                             ('/healthcheck', ('/healthcheck', {}, None)),
                             ('/health', ('/{name}', {'name': 'health'}, None))):
            with self.subTest(path=path):
                self.assertEqual(wanted, self.meaning('GET', path))

    def test_unknown_path_not_matched(self):
        for method, path in (('GET', '/v3/p'), ('GET', '/v2/'), ('GET', '/v4/'), ('GET', '//'),
                             ('GET', '/v3//volumes'), ('GET', '/v3/volumes/'),
                             ('GET', '/v3/volumes//'), ('DELETE', '/v3/volumes/'),
                             ('PUT', '/v3/volumes'), ('GET', 'v3/volumes'), ('GET', ''),
                             ('GET', '/v3/p/q/volumes'), ('GET', '/p/volumes'),
                             ('GET', '/v3/volumes\n'), ('DELETE', '/v3/p/volumes/v\n'),
                             ('GET', '/v3/volumes/v\0'), ('GET', '/\n')):
            with self.subTest(path=path):
                self.assertIsNone(self.table.match(method, path))

    def test_random_paths_matched_as_by_routes(self):
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'BLOCKATTACH_TEST_SEED={seed}')  # noqa: T201 - to run the same paths again
        chooser = random.Random(seed)
        words = ('v3', 'p', 'volumes', 'detail', 'types', 'default', 'metadata', 'extra_specs',
                 'k', 'healthcheck', 'summary')
        mapper = routes.Mapper(controller_scan=None, register=False, explicit=True)
        whole = ((path, one) for one in ROWS
                 for path in ((one.path,) if one.root else (f'/v3/{{project_id}}{one.path}',
                                                            f'/v3{one.path}')))
        # A brace comes after every letter, so a variable after every literal.
        for path, one in sorted(whole, key=lambda pair: pair[0]):
            mapper.connect(one.path, path, conditions={'method': [one.method]})
        mapper.create_regs([])
        both = 0
        for _ in range(3000):
            path = '/' + '/'.join(chooser.choices(words, k=chooser.randrange(6)))
            if chooser.random() < 0.7:
                path = '/v3' + path
            method = chooser.choice(('GET', 'POST', 'PUT', 'DELETE'))
            theirs = mapper.routematch(path, {'REQUEST_METHOD': method})
            if theirs is not None:
                variables, route = theirs
                theirs = (route.name, variables, variables.pop('project_id', None))
            ours = self.meaning(method, path)
            self.assertEqual(theirs, ours, (seed, method, path))
            both += ours is not None
        self.assertGreater(both, 100)


class TableTest(unittest.TestCase):
    """Conflicts among the routes of a table."""

    def test_separate_versions_share_path(self):
        table = dispatch.Table((row('GET', '/a', until=V(3, 9)), row('GET', '/a', since=V(3, 10))))
        self.assertEqual(2, len(table.match('GET', '/v3/a').route.operations))

    def test_actions_share_a_path(self):
        table = dispatch.Table((row('POST', '/a', action='x'), row('POST', '/a', action='y')))
        self.assertEqual(2, len(table.match('POST', '/v3/a').route.operations))

    def test_conflicting_routes_rejected(self):
        for rows in ((row('GET', '/a'), row('GET', '/a')),
                     (row('GET', '/a', until=V(3, 9)), row('GET', '/a', since=V(3, 9))),
                     (row('POST', '/a', action='x'), row('POST', '/a', action='x')),
                     (row('POST', '/a', action='x'), row('POST', '/a')),
                     (row('GET', '/a/{id}'), row('GET', '/a/{name}'))):
            with self.subTest(rows=[one.name for one in rows]), self.assertRaises(ValueError):
                dispatch.Table(rows)
