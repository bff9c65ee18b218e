"""What is asked, and in which order, for an operation whose answers have a tag."""
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
        """The answer, and what was asked for it."""
        api = api or self.api
        api.services.log.clear()
        return api.call('GET', PATH, **how), list(api.services.log)

    def test_the_answer_is_composed_for_who_does_not_have_it(self):
        for headers in (None, {NAMED: '"x"'}):
            answer, asked = self.ask(headers=headers)
            self.assertEqual((200, ['target', 'facts', 'handler']), (answer.status_code, asked))

    def test_it_is_not_composed_for_who_has_it(self):
        tag = self.ask()[0].headers['ETag']
        for named in (tag, '*'):
            answer, asked = self.ask(headers={NAMED: named})
            self.assertEqual((304, b'', tag, ['target', 'facts']), (
                answer.status_code, answer.body, answer.headers['ETag'], asked))

    def test_policy_is_judged_before(self):
        answer, asked = self.ask(headers={NAMED: '*'}, token=tiny.NOBODY)
        self.assertEqual((403, ['target']), (answer.status_code, asked))

    def test_the_tag_is_that_of_the_facts(self):
        tag = self.ask()[0].headers['ETag']
        again, *others = (self.ask(api_of(facts))[0].headers['ETag'] for facts in (
            ({'count': 1}, (True, ('rule',))), ({'count': 2}, (True, ('rule',))),
            ({'count': 1}, (True, ())), None))
        self.assertEqual(tag, again)
        self.assertEqual(4, len({tag, *others}))

    def test_facts_that_cannot_be_written_down_make_no_tag(self):
        for facts in (object(), '\ud800', 2 ** 70):
            answer, asked = self.ask(api_of(facts), headers={NAMED: '*'})
            self.assertEqual((200, ['target', 'facts', 'handler']), (answer.status_code, asked))
            self.assertNotIn('ETag', answer.headers)
