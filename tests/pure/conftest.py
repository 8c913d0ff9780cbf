"""Properties are tried with the same examples every time, however slow the machine is."""

from hypothesis import settings

settings.register_profile("pure", deadline=None, derandomize=True)
settings.load_profile("pure")
