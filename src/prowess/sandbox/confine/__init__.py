"""Taking away from a process, for good, what running somebody's code does not need. Standard library only.

It is used in processes that have nothing else of this package loaded, and imports nothing of it.
"""
