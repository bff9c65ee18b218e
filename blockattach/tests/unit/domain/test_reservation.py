"""SCSI reservation of one host among the reservations of a target."""
import unittest

from blockattach.storage.domain import connection


class ReservationsTest(unittest.TestCase):

    def test_reservation_of_initiator(self):
        for complete, stranger in ((True, connection.HostReservation.NONE), (False, None)):
            reservations = connection.Reservations(
                frozenset({'a', 'b'}), frozenset({'a', 'c'}), complete)
            self.assertEqual(
                ['holder', 'registered', 'holder', stranger],
                [reservations.of(initiator) for initiator in ('a', 'b', 'c', 'd')])
