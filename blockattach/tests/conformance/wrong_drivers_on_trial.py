"""One wrong driver in a module like that of a third party."""
from blockattach.tests.conformance import wrong_drivers


class BoasterTest(wrong_drivers.BoasterTest):
    pass
