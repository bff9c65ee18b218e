"""Castellan's own key manager for tests, with one store for all that are made of it."""
from castellan.tests.unit.key_manager import mock_key_manager

BACKEND = f'{__name__}.SharedKeys'


class SharedKeys(mock_key_manager.MockKeyManager):
    """As a key manager that stands somewhere else: processes come and go."""

    KEYS = {}

    def __init__(self, configuration=None):
        super().__init__(configuration)
        self.keys = self.KEYS
