"""Images in Glance: the client, and the inspection, conversion and copying of image data."""
