"""Story of `tools/quickstart`, on the service with a real tgtd and a real initiator."""
import shutil

from blockattach.testing import initiator
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

SEARCH = '/usr/local/sbin:/usr/sbin:/sbin'


class QuickstartStoryTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(shutil.which('tgtd') or shutil.which('tgtd', path=SEARCH), 'tgtd')
        self.outside_program(initiator.available(), initiator.PROGRAM)
        self.story = sources.load_tool('demo/quickstart/story')
        self.service = self.a_stack('file')

    def volumes(self):
        return base.Api(self.service.endpoint).list('volumes')

    def test_story_completes_and_leaves_no_volumes(self):
        said = []
        played = self.story.Story(self.service.endpoint)
        shown = self.story.play(played, said.append)
        self.assertEqual([title for title, _ in played.steps], [row.title for row in shown])
        self.assertEqual([], self.volumes())
        for row in shown:
            self.assertIn(row.title, '\n'.join(self.story.table(shown)))
            self.assertTrue(any(row.text in line for line in said))

    def test_a_step_that_fails_is_named_and_nothing_is_left(self):
        played = self.story.Story(self.service.endpoint)

        def fail():
            raise self.story.StoryFailed('the disk is made of cheese')

        steps = list(played.steps)
        steps[5] = (steps[5][0], fail)
        played.steps = tuple(steps)
        with self.assertRaisesRegex(self.story.StoryFailed,
                                    f'{steps[5][0]}: the disk is made of cheese'):
            self.story.play(played, lambda text: None)
        self.assertEqual([], self.volumes())
        self.assertEqual([], base.Api(self.service.endpoint).list('attachments'))

    def test_an_api_that_has_gone_is_reported(self):
        played = self.story.Story(self.service.endpoint)
        self.service.stop()
        with self.assertRaisesRegex(self.story.StoryFailed, played.steps[0][0]):
            self.story.play(played, lambda text: None)
