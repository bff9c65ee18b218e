"""One wrong driver, as a third party's module would hold it."""
from blockattach.tests.conformance import wrong_drivers


class BoasterTest(wrong_drivers.BoasterTest):
    pass
