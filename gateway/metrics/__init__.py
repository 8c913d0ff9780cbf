"""What a gateway counts, and how Prometheus gets it together with what the store holds."""
