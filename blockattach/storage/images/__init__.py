"""Images: what is asked of Glance, and what is done with their bytes before a volume has them."""
