"""`python -m tailrace.consumers.heart`: the heart of the consumer that starts it."""

import os

import anyio

from tailrace.consumers.heart.heart import listen, main

anyio.run(main, listen())
os._exit(0)  # there is nothing to tidy up, and the consumer waits
