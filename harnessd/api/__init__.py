"""The HTTP door: routes, controls (POST), views (GET), the stream (SSE)."""
