"""Starts and ends a consumer: in its own process, or inside your program."""
