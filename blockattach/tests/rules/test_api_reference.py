"""Every operation of the API is in the reference, with a request and what is answered to it.

That what is printed is what is asked and answered now is proved by
``test_generated_documents_are_fresh``: it plays the requests anew.
"""
import json
import re
import unittest

from blockattach.api import routes
from blockattach.tests.rules import sources

EXAMPLES = 'doc/source/user/api_examples.json'


class ApiReferenceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.reference = sources.load_tool('print_api_reference')
        self.examples = json.loads((sources.ROOT / EXAMPLES).read_text(encoding='utf-8'))

    def test_each_operation_has_an_example_of_its_success(self):
        refused = self.reference.api_examples.REFUSED
        statuses = {row.name: row.status for row in routes.operations()}
        self.assertEqual(statuses.keys(), self.examples.keys())
        self.assertEqual(
            {name: status for name, status in statuses.items() if name not in refused},
            {name: one['answer']['status'] for name, one in self.examples.items()
             if one['answer']['status'] < 400})

    def test_each_operation_is_on_a_page_with_its_example(self):
        pages = {name: (sources.ROOT / self.reference.FOLDER / f'{name}.rst').read_text('utf-8')
                 for name in self.reference.GROUPS}
        for row in routes.operations():
            with self.subTest(row.name):
                page = pages[self.reference.group_of(row)]
                self.assertEqual(1, page.count(f'.. _{self.reference.label(row)}:\n'))
                asked = self.examples[row.name]['request']
                self.assertIn(f'   {asked["method"]} {asked["path"]} HTTP/1.1\n', page)

    def test_an_example_is_a_request_of_its_operation(self):
        for row in routes.operations():
            with self.subTest(row.name):
                asked = self.examples[row.name]['request']
                self.assertEqual(row.method, asked['method'])
                self.assertRegex(asked['path'].partition('?')[0],
                                 re.sub(r'{\w+}', '[^/]+', row.path) + '$')
                if row.action is not None:
                    self.assertEqual([row.action], list(asked['body']))
