"""The parts of an attempt: facts, reports, steps, waits and children."""
