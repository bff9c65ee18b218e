import tempfile

from blockattach.conformance import store
from blockattach.testing import backend
from directory_store import DirectoryStore


class DirectoryStoreTest(store.StoreContract):
    def make(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        return DirectoryStore(backend.settings(folder))
