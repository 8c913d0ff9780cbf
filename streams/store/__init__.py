"""The way to the server: one shared connection, group commit, and whether the server is fit."""
