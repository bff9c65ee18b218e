"""Test support for consumers and driver authors; see `testing_with_blockattach` in doc."""
