"""Files to run Tailrace with: images, compose, systemd, Kubernetes, users of the store."""
