"""Regular work of hearts on their platforms: retention, schedules, outboxes, jobs that no list names."""
