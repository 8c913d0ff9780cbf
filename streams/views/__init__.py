"""What is in the store now: reads that change nothing."""
