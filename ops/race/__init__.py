"""`race`: a worker freezes and comes back, and clients see one clean history."""
