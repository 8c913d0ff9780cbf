"""Jobs that spawn and await other jobs: what they bring in line, and how the news travels between platforms."""
