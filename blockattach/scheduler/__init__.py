"""Choice: which pool a new volume lives in, its room claimed there, its manager told."""
