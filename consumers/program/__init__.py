"""How a consumer starts and ends: in a process of its own, or inside a program of yours."""
