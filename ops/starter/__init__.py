"""The starter project that `tailrace init` writes."""
