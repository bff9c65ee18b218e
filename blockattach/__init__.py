"""Block-storage attachments: one volume, many hosts, none able to harm another.

Importing the package chooses oslo.service's threading backend, once and for every process: native
threads only, nothing is monkey-patched.
"""
import sys

from oslo_service import backend

# The oslo libraries import eventlet where it is installed, to see whether it patches anything. An
# entry of None makes that fail at once: less to load, and nothing that could ever patch.
sys.modules.setdefault('eventlet', None)  # type: ignore[arg-type]

backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
