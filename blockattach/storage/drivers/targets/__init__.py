"""Target drivers, which export volumes to hosts."""
