"""Parts of every process: settings, logs, start and end."""
