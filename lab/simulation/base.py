"""Base class of the scenario tests."""
import os
import unittest
from collections.abc import Callable
from typing import Any

from lab.simulation import cloud as clouds
from lab.simulation import consumer


class ScenarioTestCase(unittest.TestCase):
    """Tests that each run as a story in a new cloud.

    Before the test method starts, `cloud` and `api` are set.

    :cvar CLOUD: arguments of `clouds.Cloud`
    :cvar DOWN: names of the processes that are not started; the story starts them itself
    """

    CLOUD: dict[str, Any] = {}
    DOWN: tuple[str, ...] = ()
    cloud: clouds.Cloud
    api: consumer.Consumer

    def _callTestMethod(self, method: Callable[[], object]) -> None:  # noqa: N802
        """Run the test method as a story of the cloud, in the thread order of the seed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or 1)
        self.cloud = clouds.Cloud(seed, **self.CLOUD)
        self.api = self.cloud.api
        self.cloud.tell(method, self.DOWN)
