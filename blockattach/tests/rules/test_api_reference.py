"""Every operation of both APIs is in their references, with an example request and response.

``test_committed_generated_files_match_generators`` sends the requests of the examples again.
"""
import json
import re
import unittest

from blockattach.compute.api import routes as compute_routes
from blockattach.storage.api import routes
from blockattach.tests.rules import sources

APIS = (('print_api_reference', 'api_examples', routes.operations()),
        ('print_compute_reference', 'compute_api_examples', compute_routes.OPERATIONS))


class ApiReferenceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.apis = [(reference := sources.load_tool(tool), getattr(reference, played), rows,
                      json.loads((sources.ROOT / reference.EXAMPLES).read_text('utf-8')))
                     for tool, played, rows in APIS]

    def test_each_operation_has_an_example_of_its_success(self):
        for _, played, rows, examples in self.apis:
            refused = getattr(played, 'REFUSED', {})
            statuses = {row.name: row.status for row in rows}
            self.assertEqual(statuses.keys(), examples.keys())
            self.assertEqual(
                {name: status for name, status in statuses.items() if name not in refused},
                {name: one['answer']['status'] for name, one in examples.items()
                 if one['answer']['status'] < 400})

    def test_each_operation_is_on_a_page_with_its_example(self):
        for reference, _, rows, examples in self.apis:
            pages = {name: reference.REFERENCE.page(name) for name in reference.GROUPS}
            for row in rows:
                with self.subTest(row.name):
                    page = pages[reference.group_of(row)]
                    label = reference.REFERENCE.label(row)
                    self.assertEqual(1, page.count(f'.. _{label}:\n'))
                    asked = examples[row.name]['request']
                    self.assertIn(f'   {asked["method"]} {asked["path"]} HTTP/1.1\n', page)

    def test_an_example_is_a_request_of_its_operation(self):
        for _, _, rows, examples in self.apis:
            for row in rows:
                with self.subTest(row.name):
                    asked = examples[row.name]['request']
                    self.assertEqual(row.method, asked['method'])
                    self.assertRegex(asked['path'].partition('?')[0],
                                     re.sub(r'{\w+}', '[^/]+', row.path) + '$')
                    if row.action is not None:
                        self.assertEqual([row.action], list(asked['body']))
