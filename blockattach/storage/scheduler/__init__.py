"""Choice: which pool a new volume goes to, its room claimed there, its manager notified."""
