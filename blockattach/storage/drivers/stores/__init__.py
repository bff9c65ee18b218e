"""Stores: where the bytes of volumes are."""
