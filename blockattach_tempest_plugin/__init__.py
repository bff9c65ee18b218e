"""Black-box tests of volume attachments for any endpoint of the Block Storage API v3.

The test cases are in `cases`. The command ``blockattach-sanity`` runs them directly, and Tempest
runs them as a plugin. The package is separate from `blockattach`, and uses a service by HTTP only.
"""
