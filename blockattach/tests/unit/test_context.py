"""Request context that a thread logs."""
import threading
import unittest

from oslo_context import context as oslo_context

from blockattach.platform import context


class StoreTest(unittest.TestCase):

    def stored(self, act):
        """Return the context that a new thread logs after calling a function."""
        found = []
        thread = threading.Thread(target=lambda: (act(), found.append(oslo_context.get_current())))
        thread.start()
        thread.join()
        return found[0]

    def test_request_context_stored_for_thread(self):
        made = []
        self.assertIs(self.stored(lambda: made.append(context.RequestContext())), made[0])

    def test_admin_context_not_stored(self):
        self.assertIsNone(self.stored(context.admin_context))

    def test_admin_context_keeps_stored_context(self):
        made = []

        def act():
            made.append(context.RequestContext())
            context.admin_context()
        self.assertIs(self.stored(act), made[0])

    def test_admin_context_stored_explicitly(self):
        made = []

        def act():
            made.append(context.admin_context())
            made[0].update_store()
        self.assertIs(self.stored(act), made[0])
