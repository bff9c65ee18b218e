"""Images: the client of Glance, and the inspection, conversion and copy of image data."""
