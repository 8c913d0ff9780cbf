"""What hearts keep in order on their platforms: retention, schedules, outboxes, jobs that no list names."""
