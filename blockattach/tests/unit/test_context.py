"""Whom a thread logs by."""
import threading
import unittest

from oslo_context import context as oslo_context

from blockattach.platform import context


class StoreTest(unittest.TestCase):

    def stored(self, act):
        """By whom a new thread logs once it has done that."""
        found = []
        thread = threading.Thread(target=lambda: (act(), found.append(oslo_context.get_current())))
        thread.start()
        thread.join()
        return found[0]

    def test_a_thread_logs_by_its_caller(self):
        made = []
        self.assertIs(self.stored(lambda: made.append(context.RequestContext())), made[0])

    def test_the_service_itself_is_nobody(self):
        self.assertIsNone(self.stored(context.admin_context))

    def test_the_service_itself_keeps_the_caller_of_a_thread(self):
        made = []

        def act():
            made.append(context.RequestContext())
            context.admin_context()
        self.assertIs(self.stored(act), made[0])

    def test_going_on_for_the_service_is_explicit(self):
        made = []

        def act():
            made.append(context.admin_context())
            made[0].update_store()
        self.assertIs(self.stored(act), made[0])
