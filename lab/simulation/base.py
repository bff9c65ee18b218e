"""What tests that are scenarios share."""
import os
import unittest
from collections.abc import Callable
from typing import Any

from lab.simulation import cloud as clouds
from lab.simulation import consumer


class ScenarioTestCase(unittest.TestCase):
    """Each test is a story in a cloud of its own: `cloud` and `api` are there when it begins.

    :cvar CLOUD: what the cloud is, as `clouds.Cloud` has it
    :cvar DOWN: the processes that the story itself starts
    """

    CLOUD: dict[str, Any] = {}
    DOWN: tuple[str, ...] = ()
    cloud: clouds.Cloud
    api: consumer.Consumer

    def _callTestMethod(self, method: Callable[[], object]) -> None:  # noqa: N802
        """Within the cloud, whose threads go on by the seed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or 1)
        self.cloud = clouds.Cloud(seed, **self.CLOUD)
        self.api = self.cloud.api
        self.cloud.tell(method, self.DOWN)
