"""Operations of the service, independent of HTTP. The API calls them for authorized requests."""
