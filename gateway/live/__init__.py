"""Live streams: one feed from the store, one channel for each watched job, one stream for each client."""
