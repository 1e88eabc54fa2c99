"""Cost of the endpoint picker: its own time for Envoy's messages, and what callers wait for behind a real Envoy."""
