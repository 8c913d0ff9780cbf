"""Metrics of a consumer: the loop counts, shared memory carries the counts, the heart answers Prometheus."""
