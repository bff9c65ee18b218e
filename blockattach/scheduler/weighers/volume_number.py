"""How many volumes a pool has: with a negative multiplier, the pool with fewest first."""
from blockattach.domain import pools


def measure(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Volumes, those included that are being made there."""
    return float(request.facts.volumes.get(pool.name, 0))
