"""Commands that run the test cases."""
