"""`race`: a worker that freezes and comes back, and what clients see of it."""
