"""Module of a third party with a faulty driver."""
from blockattach.tests.conformance import wrong_drivers


class BoasterTest(wrong_drivers.BoasterTest):
    pass
