"""Preparation of the machine and of the virtual environment for the commands in `tools`."""
