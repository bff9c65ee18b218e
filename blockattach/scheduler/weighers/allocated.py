"""How much was given away: with a negative multiplier, the pool of which least was given first."""
from blockattach.domain import pools


def measure(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """GiB given away, claims included."""
    return float(pool.allocated_gb)
