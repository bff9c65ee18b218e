"""Black-box tests of volume attachments, for any endpoint of the Block Storage API v3.

The cases are written once (`cases`). The command ``blockattach-sanity`` runs them by itself, and
Tempest as those of a plugin. A package of its own: it knows a service by HTTP only.
"""
