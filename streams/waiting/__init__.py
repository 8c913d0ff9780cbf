"""Why a job waits, and how many jobs are before it."""
