"""Time and memory that a template may take: it is a program that somebody else wrote."""

import contextlib
import signal
from pathlib import Path

from .errors import Beyond

SECONDS, MEGABYTES = 180, 256  # Gemma 4 takes 10 s of a free processor


@contextlib.contextmanager
def time_limit(seconds: int):
    """A template is a program: one that runs on and on is stopped, by the clock on the wall."""
    def stop(*_):
        raise Beyond(f"it runs for more than {seconds} seconds")

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except ValueError:  # not the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def memory_limit(megabytes: int):
    """And it may ask for any amount of memory: for more than that, beyond what is in use, it gets a MemoryError."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = used + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    except (ImportError, OSError, ValueError):  # a system that has no such limit
        yield
        return
    try:
        yield
    except MemoryError:
        raise Beyond(f"it takes more than {megabytes} MB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def limited():
    """What a template may take."""
    with memory_limit(MEGABYTES), time_limit(SECONDS):
        yield
