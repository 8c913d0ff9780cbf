"""`bench`: how fast Tailrace is here."""
