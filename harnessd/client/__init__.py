"""The HTTP client of our own API: typed, and not to be shaken off a stream."""
