"""Access: API keys, tickets, web origins and limits."""
