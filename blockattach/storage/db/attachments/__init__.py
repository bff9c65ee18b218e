"""Attachments: preconditions, state changes, leases, history, and the desired grants."""
