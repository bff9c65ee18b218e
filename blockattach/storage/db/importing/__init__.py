"""Take over what a Cinder database says."""
