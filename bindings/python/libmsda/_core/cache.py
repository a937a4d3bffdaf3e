"""A bounded cache that any thread may use and that a forked child finds empty."""

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

_caches: "weakref.WeakSet[Cache]" = weakref.WeakSet()


class Cache:
    """Keeps at most `limit` entries, those used last among them.

    There are two generations of limit / 2 entries. An entry that is used moves to the young one;
    when that is full it becomes the old one, and the old one's entries are dropped. So a hit is one
    dict lookup without a lock."""

    def __init__(self, limit: int):
        self._half = limit // 2
        self._start()
        _caches.add(self)

    def _start(self) -> None:
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: Hashable) -> Any:
        """The entry, or None."""
        entry = self._young.get(key)
        if entry is None and self._old:
            entry = self._old.get(key)
            if entry is not None:
                self.add(key, entry)
        return entry

    def add(self, key: Hashable, entry: Any) -> Any:
        """The entry of the key: this one, or that of another thread that was first."""
        with self._lock:
            if key in self._young:
                return self._young[key]
            if len(self._young) >= self._half:
                self._young, self._old = {}, self._young
            self._young[key] = entry
            return entry

    def find(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The entry of the key, made where there is none."""
        entry = self.get(key)
        return self.add(key, make()) if entry is None else entry

    def forget(self) -> tuple[Any, Any]:
        """Starts anew, with a new lock; returns what was there."""
        kept = self._young, self._old
        self._start()
        return kept


_left_to_parent = []  # entries of the processes this one was forked from; they are never destroyed


def _after_fork() -> None:
    """A child starts with empty caches: the threads of its parent's handles did not come with it."""
    _left_to_parent.extend([cache.forget() for cache in _caches])


os.register_at_fork(after_in_child=_after_fork)
