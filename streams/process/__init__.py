"""What every process of ours needs: settings, logs, how it starts and ends."""
