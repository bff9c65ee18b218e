"""What one host holds, of all that a target reports."""
import unittest

from blockattach.storage.domain import reservation


class ReservationsTest(unittest.TestCase):

    def test_of_one(self):
        for complete, stranger in ((True, reservation.HostReservation.NONE), (False, None)):
            reservations = reservation.Reservations(
                frozenset({'a', 'b'}), frozenset({'a', 'c'}), complete)
            self.assertEqual(
                ['holder', 'registered', 'holder', stranger],
                [reservations.of(initiator) for initiator in ('a', 'b', 'c', 'd')])
