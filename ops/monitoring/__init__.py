"""What an operator sees and is warned of: rules, the dashboard, and alerts without Prometheus."""
