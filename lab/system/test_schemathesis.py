"""Requests that schemathesis generates from the OpenAPI document.

A third of them are the examples of the reference, a third are valid, and a third are invalid. Most
refer to existing resources. Each response is checked against the document.
"""
import collections
import os
import random

import hypothesis
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.core import failures as schemathesis_failures

from blockattach.storage.api import routes
from blockattach.tests.api import base
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import promises as promised
from blockattach.tests.rules import sources
from lab.system import documented_requests

ROUNDS = 4
EXAMPLES = 6
"""Number of requests to each operation in each round."""
REFRESH = 40
"""Number of operations after which the existing resources are listed again."""


class SchemathesisTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        images = glance.GlanceStandIn()
        self.addCleanup(images.close)
        self.http.close()
        self.http = http.ApiFixture(options={
            'glance': {'endpoint_override': images.url, 'num_retries': 0}})
        self.addCleanup(self.http.close)
        # The document is generated from the current operations.
        self.requests = documented_requests.Requests(
            sources.load_tool('print_openapi'), self.http,
            documented_requests.Things(self, images.add(b'an image')))
        self.answers, self.failures = [], []

    def test_nothing_breaks(self):
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'BLOCKATTACH_TEST_SEED={seed}')
        chance, rows = random.Random(seed), list(routes.operations())
        for _ in range(ROUNDS):
            chance.shuffle(rows)
            for number, row in enumerate(rows):
                if number % REFRESH == 0:
                    self.requests.things.look()
                self.play(row, chance.randrange(2 ** 32))
        # An error in between would make hypothesis repeat the request on changed resources.
        self.assertEqual([], self.failures, '\n'.join(self.failures))
        seen = collections.Counter(status for _, status in self.answers)
        done = {name for name, status in self.answers if status < 400}
        print(f'responses by status: {dict(sorted(seen.items()))}')
        print(f'operations without success: {sorted({row.name for row in rows} - done)}')
        self.assertLessEqual({200, 202, 204, 300, 400, 403, 404, 409}, seen.keys())
        self.assertLessEqual(len(rows) * 3 // 4, len(done))

    def play(self, row, seed):
        """Send some requests to an operation."""
        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=EXAMPLES, deadline=None, database=None, derandomize=False,
            phases=(hypothesis.Phase.generate,),
            suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(st.data())
        def ask(data):
            case = self.requests.draw(data, row)
            try:
                response = case.call()
            except promised.WrongAnswer as wrong:
                self.failures.append(f'{documented_requests.shown(case)}: {wrong}')
                return
            self.answers.append((row.name, response.status_code))
            self.failures.extend(self.broken(case, response))

        ask()

    def broken(self, case, response):
        """Return the violations of the document by a response."""
        promises = [checks.not_a_server_error, checks.status_code_conformance,
                    checks.content_type_conformance]
        version = documented_requests.VERSION
        if case.headers.get(version) in documented_requests.LATEST:
            # The document describes the responses at the latest version.
            promises.append(checks.response_schema_conformance)
        found = []
        try:
            case.validate_response(response, checks=promises)
        except* schemathesis_failures.Failure as broken:
            found = [f'{documented_requests.shown(case)}: {one}' for one in broken.exceptions]
        return found
