"""Test cases as Tempest tests, with the credentials of Tempest's configuration."""
