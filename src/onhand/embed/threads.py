"""How many threads may a model take?"""

import os

MAX_THREADS = 4  # a text is too little work for more


def threads_at_hand() -> int:
    """Half of the processors that this process may use: two of them are often one core, and were not faster."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, min(len(usable) // 2, MAX_THREADS))
