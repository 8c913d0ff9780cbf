"""`up`: a store, a gateway and consumers on this machine, kept alive."""
