"""Conditional requests to an operation whose answers have an ETag."""
import unittest

from blockattach.platform.http import operation
from blockattach.storage.policy import attachments as policies
from blockattach.tests.unit.http import tiny

PATH = '/v3/attachments/a'
NAMED = 'If-None-Match'


def api_of(facts):
    def asked(services, _call):
        services.log.append('facts')
        return facts

    return tiny.Tiny((operation.Operation(
        'GET', '/attachments/{id}', tiny.show, target=tiny.load, policy=policies.GET,
        facts=asked),))


class ConditionalTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.api = api_of(({'count': 1}, (True, ('rule',))))

    def ask(self, api=None, **how):
        """Return the answer and the steps that it took."""
        api = api or self.api
        api.services.log.clear()
        return api.call('GET', PATH, **how), list(api.services.log)

    def test_request_without_matching_tag_calls_handler(self):
        for headers in (None, {NAMED: '"x"'}):
            answer, asked = self.ask(headers=headers)
            self.assertEqual((200, ['target', 'facts', 'handler']), (answer.status_code, asked))

    def test_request_with_matching_tag_not_modified(self):
        tag = self.ask()[0].headers['ETag']
        for named in (tag, '*'):
            answer, asked = self.ask(headers={NAMED: named})
            self.assertEqual((304, b'', tag, ['target', 'facts']), (
                answer.status_code, answer.body, answer.headers['ETag'], asked))

    def test_policy_checked_before_tag(self):
        answer, asked = self.ask(headers={NAMED: '*'}, token=tiny.NOBODY)
        self.assertEqual((403, ['target']), (answer.status_code, asked))

    def test_tag_depends_on_facts(self):
        tag = self.ask()[0].headers['ETag']
        again, *others = (self.ask(api_of(facts))[0].headers['ETag'] for facts in (
            ({'count': 1}, (True, ('rule',))), ({'count': 2}, (True, ('rule',))),
            ({'count': 1}, (True, ())), None))
        self.assertEqual(tag, again)
        self.assertEqual(4, len({tag, *others}))

    def test_facts_not_serializable_give_no_tag(self):
        for facts in (object(), '\ud800', 2 ** 70):
            answer, asked = self.ask(api_of(facts), headers={NAMED: '*'})
            self.assertEqual((200, ['target', 'facts', 'handler']), (answer.status_code, asked))
            self.assertNotIn('ETag', answer.headers)
