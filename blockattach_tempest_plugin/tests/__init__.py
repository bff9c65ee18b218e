"""The cases as tests of Tempest's, with the credentials of its configuration."""
