"""A job's history: events as they are stored, as a client gets them, and the fold that shows each once."""
