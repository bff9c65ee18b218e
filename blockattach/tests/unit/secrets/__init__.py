"""Tests of sealing."""
