"""The commands that read and act, one file each."""
