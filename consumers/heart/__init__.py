"""The heart of a consumer: a process that beats for it, observes other consumers and reclaims what they lost."""
