"""The way to the server: one shared connection, group commit, whether the server is fit, and keys of no platform."""
