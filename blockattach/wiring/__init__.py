"""Builders of the objects of each process. Rules of the services are in other packages."""
