"""A client of the gateway: follows a job over HTTP."""
