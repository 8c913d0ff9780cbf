"""Jobs that spawn and await other jobs: how children are enqueued, and how news travels between platforms."""
