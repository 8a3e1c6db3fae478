"""Definitions that the stack's processes and their clients share. Imports only the standard
library, and OpenTelemetry in `tracing`."""
