"""Tables. Used by `blockattach.db` only; `metadata` is what the migrations must agree with."""
from blockattach.db.models import attachment
from blockattach.db.models import base
from blockattach.db.models import idempotency
from blockattach.db.models import lease
from blockattach.db.models import message
from blockattach.db.models import pool
from blockattach.db.models import qos
from blockattach.db.models import quota
from blockattach.db.models import service
from blockattach.db.models import transfer
from blockattach.db.models import volume
from blockattach.db.models import wait
from blockattach.db.models import work

metadata = base.metadata

__all__ = ('attachment', 'idempotency', 'lease', 'message', 'metadata', 'pool', 'qos', 'quota',
           'service', 'transfer', 'volume', 'wait', 'work')
