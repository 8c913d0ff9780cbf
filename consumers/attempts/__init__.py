"""What an attempt is made of: facts, reports, steps, waits and children."""
