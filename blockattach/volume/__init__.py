"""The backend's keeper: makes volumes, lets hosts in and out, and holds the target to the rows."""
