"""Monitoring: alert rules, the Grafana dashboard, and alerts without Prometheus."""
