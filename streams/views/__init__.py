"""Reads of the present state of the store, which change nothing."""
