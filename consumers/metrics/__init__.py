"""What a consumer counts, and how Prometheus gets it: the loop counts, a shared page carries it, the heart answers."""
