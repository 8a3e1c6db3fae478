"""Models without a server: values in, values out, usable from a REPL."""
