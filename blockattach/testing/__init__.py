"""What the tests of consumers and of driver authors need; `testing_with_blockattach` in doc."""
