"""Clouds to try out on one machine: `tools/devcloud` and `tools/quickstart`."""
