"""The schema in its versions: migrations, what they leave to do, and what ends them."""
