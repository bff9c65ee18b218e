"""How much can still be given away: volumes spread over the pools with most room."""
from blockattach.domain import placement
from blockattach.domain import pools


def measure(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """GiB left to give, of a thin pool the over-subscribed ones.

    A pool that calls its room infinite or unknown cannot be measured and ranks last, as in Cinder:
    it is taken where no other will do.
    """
    return placement.left_gb(pool)
