"""Block storage service. Hosts to which it attaches the same volume are isolated from each other.

Importing the package selects the threading backend of oslo.service for the process. All threads
are native, and no module is monkey-patched.
"""
import sys

from oslo_service import backend

# The oslo libraries import eventlet, if it is installed, to see whether it has patched anything.
# An entry of None makes the import fail at once, which saves time and memory. A program that has
# imported eventlet itself is left alone.
sys.modules.setdefault('eventlet', None)  # type: ignore[arg-type]

# oslo.service would choose its eventlet backend for a process that has not chosen any.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
