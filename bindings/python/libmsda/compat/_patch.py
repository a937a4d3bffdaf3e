"""What every drop-in shares: a patch that counts, reports and undoes itself; a site that it replaces."""

import copy
import functools
import inspect
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

import libmsda

from . import _operator

_MISSING = object()
_lock = threading.RLock()  # guards the sites and what they hold
_sites: dict[tuple[int, str], "Site"] = {}
_thread = threading.local()  # .in_stock_code: whether stock code answers a call, and with it every call that it makes


@dataclass
class Report:
    """What ran while a patch was active.

    calls      calls that libmsda answered
    fallbacks  calls that stock code answered, by reason
    seconds    host time inside libmsda's calls forward; on a GPU that is the time to enqueue them
    kernels    ids of the kernels that libmsda chose forward
    targets    what the patch replaced, as "module.attribute"
    skipped    what has a known name but is left alone, with the reason
    absent     packages that libmsda knows and in which it replaced nothing, with the reason
    """

    calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.calls} calls by libmsda in {self.seconds:.3f} s, {self.fallbacks.total()} by stock code"]
        lines += [f"  {count} by stock code: {reason}" for reason, count in sorted(self.fallbacks.items())]
        lines += [f"  kernel {kernel}" for kernel in self.kernels]
        lines += [f"  replaces {target}" for target in self.targets]
        lines += [f"  leaves {target}, which {reason}" for target, reason in self.skipped.items()]
        lines += [f"  nothing of {package}, which {reason}" for package, reason in self.absent.items()]
        return "\n".join(lines)


class Patch:
    """Functions and methods of other packages that libmsda answers for, until undo() or the end of a `with` block.

    Patches may overlap and be undone in any order, from any thread: a target is restored when the last patch that
    has it is undone. undo() may be called again and then does nothing.
    """

    def __init__(self, found: "Found", absent: dict[str, str] | None = None):
        targets = tuple(dict.fromkeys(str(target) for target in found.targets))
        self._counts = Report(targets=targets, skipped=found.skipped, absent=absent or {})
        self._kernels: dict[Hashable, str | None] = {}  # by the signatures of calls
        self._counts_lock = threading.Lock()
        self._held: list[Site] = []
        with _lock:
            try:
                for target in found.targets:
                    Site.of(target).hold(self)
            except BaseException:
                self.undo()
                raise

    def undo(self) -> None:
        """Restores what the patch replaced."""
        with _lock:
            while self._held:
                self._held.pop().release(self)

    def report(self) -> Report:
        """A copy of the counts so far."""
        with self._counts_lock:
            report, kernels = copy.deepcopy(self._counts), {*self._kernels.values()}
        report.kernels = tuple(sorted(kernels - {None}))
        return report

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Patch of {len(self._counts.targets)} targets{'' if self._held else ', undone'}>"

    def _count_call(self, call: "_operator.Call", seconds: float) -> None:
        signature = call.signature()
        kernel = self._kernels[signature] if signature in self._kernels else call.kernel()
        with self._counts_lock:
            self._counts.calls += 1
            self._counts.seconds += seconds
            self._kernels[signature] = kernel

    def _count_fallback(self, reason: str) -> None:
        with self._counts_lock:
            self._counts.fallbacks[reason] += 1


@dataclass(frozen=True)
class Target:
    """An attribute of a module or class, and what takes its place.

    make(site, stock) returns the replacement; stock is None where the owner has no such attribute.
    """

    owner: Any
    attribute: str
    make: Callable[["Site", Any], Any]

    def __str__(self) -> str:
        return _name(self.owner, self.attribute)


def _name(owner: Any, attribute: str) -> str:
    where = owner.__name__ if not isinstance(owner, type) else f"{owner.__module__}.{owner.__qualname__}"
    return f"{where}.{attribute}"


@dataclass
class Found:
    """Targets, and what is none, with the reason."""

    targets: list[Target] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        owner: Any,
        attribute: str,
        function: Any,
        readers: tuple["Reader", ...],
        make: "Callable[[Reader], Callable[[Site, Any], Any]] | None" = None,
        first: tuple[str, ...] = (),
    ) -> bool:
        """Adds a Target where the function's parameters are `first` and those of a reader; else the reason why not.

        make(reader) is the Target's make(); replacement() where None.
        """
        if not isinstance(function, FunctionType):
            self.skipped[_name(owner, attribute)] = f"is a {type(function).__name__}; libmsda takes functions of Python"
            return False
        known = {(*first, *inspect.signature(read).parameters): read for read in readers}
        given = tuple(inspect.signature(function).parameters)
        if given not in known:
            takes = " or ".join(f"({', '.join(parameters)})" for parameters in known)
            self.skipped[_name(owner, attribute)] = f"has parameters ({', '.join(given)}); libmsda takes {takes}"
            return False
        self.targets.append(Target(owner, attribute, (make or replacement)(known[given])))
        return True


class Site:
    """One replaced attribute, shared by the patches that hold it."""

    def __init__(self, target: Target):
        self.target = target
        self.patches: tuple[Patch, ...] = ()  # replaced as a whole, so that a call reads it without the lock
        self.stock = vars(target.owner).get(target.attribute, _MISSING)
        self.ours = target.make(self, None if self.stock is _MISSING else self.stock)

    @staticmethod
    def of(target: Target) -> "Site":
        """The target's site, made where there is none. A module that imported ours from another has that one's site."""
        key = (id(target.owner), target.attribute)
        if key in _sites:
            return _sites[key]
        present = vars(target.owner).get(target.attribute)
        for site in _sites.values():
            if isinstance(present, FunctionType) and site.ours is present:
                return site
        site = _sites[key] = Site(target)
        setattr(target.owner, target.attribute, site.ours)
        return site

    def hold(self, patch: Patch) -> None:
        if patch not in self.patches:
            self.patches = (*self.patches, patch)
            patch._held.append(self)

    def release(self, patch: Patch) -> None:
        self.patches = tuple(other for other in self.patches if other is not patch)
        if self.patches:
            return
        owner, attribute = self.target.owner, self.target.attribute
        del _sites[id(owner), attribute]
        if vars(owner).get(attribute) is not self.ours:
            warnings.warn(f"{self.target} was replaced by somebody else meanwhile; it is left as it is", stacklevel=3)
        elif self.stock is _MISSING:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, self.stock)
            if isinstance(self.ours, FunctionType):
                self._restore_importers()

    def _restore_importers(self) -> None:
        """Gives stock back to the modules that imported ours from the owner while it was there."""
        attribute = self.target.attribute
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(attribute) is self.ours:
                setattr(module, attribute, self.stock)


Reader = Callable[..., "_operator.Call | str"]  # takes a call's arguments; returns a Call, or the reason why it is none


def answer(site: Site, read: Callable[[], "_operator.Call | str"], stock: Callable[[str], Any]) -> Any:
    """libmsda's answer to the call that is read, [B,Q,M*D], or that of stock code, which is told the reason."""
    if getattr(_thread, "in_stock_code", False):
        return stock("stock code called it")
    patches = site.patches
    try:
        call = read()
        if isinstance(call, _operator.Call):
            begin = time.perf_counter()
            output = call.forward()
            seconds = time.perf_counter() - begin
            for patch in patches:
                patch._count_call(call, seconds)
            return output
        reason = call
    except (libmsda.InvalidArgumentError, libmsda.UnsupportedError) as error:
        reason = str(error)
    for patch in patches:
        patch._count_fallback(reason)
    _thread.in_stock_code = True
    try:
        return stock(reason)
    finally:
        _thread.in_stock_code = False


def replacement(read: Reader) -> Callable[[Site, Any], Any]:
    """A Target's make() for a function with the reader's parameters."""

    def make(site: Site, stock: Any) -> Any:
        @torch.compiler.disable  # a compiled model leaves its graph here and goes on in a second one
        def run(*args: Any, **kwargs: Any) -> Any:
            return answer(site, lambda: read(*args, **kwargs), lambda _reason: stock(*args, **kwargs))

        @functools.wraps(stock)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not site.patches:  # undone, but somebody kept a reference
                return stock(*args, **kwargs)
            return run(*args, **kwargs)

        return call

    return make


def constant(value: Any) -> Callable[[Site, Any], Any]:
    """A Target's make() for an attribute that is the same for every patch."""
    return lambda _site, _stock: value
