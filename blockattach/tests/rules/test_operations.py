"""Operations of the API, which have a policy rule, valid schemas and versions."""
import unittest

import jsonschema

from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.wiring import rules

# Operations without a token or without a rule, by the first word of the path, with the reason.
PUBLIC = {
    '': 'clients read the versions of the API before they have a token',
    'v3': 'clients read the versions of the API before they have a token',
}
WITHOUT_RULE = {
    'extensions': 'the list of extensions is the same for everyone',
    'os-availability-zone': 'the zones are the same for everyone who creates volumes',
    'group_types': 'the list is always empty',
    'resource_filters': 'the filters are the same for everyone',
    'limits': 'limits are shown to all users of the project, and a rule decides on the usage',
}


def noun(row):
    """Return the first word of an operation's path."""
    return row.path.strip('/').split('/')[0]


class OperationsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.operations = routes.operations()

    def test_operations_registered(self):
        self.assertNotEqual((), self.operations)

    def test_operations_have_policy_rule_or_reason(self):
        known = {rule.name for rule in rules.list_rules()}
        for row in self.operations:
            with self.subTest(row.name):
                if row.public:
                    self.assertIn(noun(row), PUBLIC)
                elif row.policy is None:
                    self.assertIn(noun(row), WITHOUT_RULE)
                else:
                    self.assertIn(row.policy, known)

    def test_operations_have_summary(self):
        for row in self.operations:
            with self.subTest(row.name):
                self.assertRegex(row.summary, r'^[A-Z].+\.$')

    def test_operations_within_supported_versions(self):
        for row in self.operations:
            with self.subTest(row.name):
                until = row.until or versions.MAXIMUM
                self.assertLessEqual(versions.MINIMUM, row.since)
                self.assertLessEqual(row.since, until)
                self.assertLessEqual(until, versions.MAXIMUM)

    def test_operation_schemas_valid_for_their_versions(self):
        for row in self.operations:
            for schemas in filter(None, (row.body, row.query, row.answer)):
                with self.subTest(row.name):
                    self.assertLessEqual(min(schemas), row.since)
                    self.assertLessEqual(max(schemas), versions.MAXIMUM)
                    for schema in schemas.values():
                        jsonschema.Draft202012Validator.check_schema(schema)

    def test_extension_schemas_valid_for_their_versions(self):
        known = {number for number, _ in versions.EXTENSION_HISTORY}
        for row in self.operations:
            for since, extend in (row.extended or {}).items():
                with self.subTest(row.name):
                    self.assertIn(since, known)
                    for schema in row.answer.values():
                        self.assertNotEqual(schema, extend(schema))
                        jsonschema.Draft202012Validator.check_schema(extend(schema))

    def test_extension_parameters_described(self):
        known = {number for number, _ in versions.EXTENSION_HISTORY}
        for row in self.operations:
            for since, added in (row.parameters or {}).items():
                with self.subTest(row.name):
                    self.assertIn(since, known)
                    for schema in added.values():
                        jsonschema.Draft202012Validator.check_schema(schema)
                        self.assertRegex(schema['description'], r'^[A-Z].*\.$')

    def test_actions_have_body_schema(self):
        for row in self.operations:
            with self.subTest(row.name):
                self.assertTrue(row.action is None or row.body)

    def test_request_has_one_operation_per_version(self):
        seen = {}
        for row in self.operations:
            with self.subTest(row.name):
                for other in seen.get(row.name, ()):
                    apart = (other.until is not None and other.until < row.since
                             or row.until is not None and row.until < other.since)
                    self.assertTrue(apart)
            seen.setdefault(row.name, []).append(row)
