"""What every drop-in shares: a patch that counts, reports and undoes itself; a site that it replaces."""

import functools
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import libmsda

from . import _operator

_MISSING = object()
_lock = threading.RLock()  # guards the sites and what they hold
_sites: dict[tuple[int, str], "Site"] = {}


@dataclass
class Report:
    """What ran while a patch was active.

    calls      calls that libmsda answered
    fallbacks  calls that stock code answered, by reason
    seconds    host time inside libmsda's calls forward; on a GPU that is the time to enqueue them
    kernels    ids of the kernels that libmsda chose forward
    targets    what the patch replaced, as "module.attribute"
    """

    calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.calls} calls by libmsda in {self.seconds:.3f} s, {self.fallbacks.total()} by stock code"]
        lines += [f"  {count} by stock code: {reason}" for reason, count in sorted(self.fallbacks.items())]
        lines += [f"  kernel {kernel}" for kernel in self.kernels]
        lines += [f"  replaces {target}" for target in self.targets]
        return "\n".join(lines)


class Patch:
    """Functions and methods of other packages that libmsda answers for, until undo() or the end of a `with` block.

    Patches may overlap and be undone in any order, from any thread: a target is restored when the last patch that
    has it is undone. undo() may be called again and then does nothing.
    """

    def __init__(self, targets: list["Target"]):
        self._counts = Report(targets=tuple(dict.fromkeys(str(target) for target in targets)))
        self._shapes: set[_operator.Shape] = set()
        self._counts_lock = threading.Lock()
        self._held: list[Site] = []
        with _lock:
            try:
                for target in targets:
                    self._held.append(Site.of(target).held_by(self))
            except BaseException:
                self.undo()
                raise

    def undo(self) -> None:
        """Restores what the patch replaced."""
        with _lock:
            while self._held:
                self._held.pop().released_by(self)

    def report(self) -> Report:
        """A copy of the counts so far."""
        with self._counts_lock:
            counts, shapes = self._counts, list(self._shapes)
            report = Report(counts.calls, Counter(counts.fallbacks), counts.seconds, targets=counts.targets)
        report.kernels = tuple(sorted({_operator.kernel_of(shape) for shape in shapes}))
        return report

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Patch of {len(self._counts.targets)} targets{'' if self._held else ', undone'}>"

    def _count_call(self, shape: "_operator.Shape", seconds: float) -> None:
        with self._counts_lock:
            self._counts.calls += 1
            self._counts.seconds += seconds
            self._shapes.add(shape)

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
        owner = self.owner
        where = owner.__name__ if not isinstance(owner, type) else f"{owner.__module__}.{owner.__qualname__}"
        return f"{where}.{self.attribute}"


class Site:
    """One replaced attribute, shared by the patches that hold it."""

    def __init__(self, target: Target):
        self.target = target
        self.patches: tuple[Patch, ...] = ()  # replaced as a whole, so that a call reads it without the lock
        self.stock = vars(target.owner).get(target.attribute, _MISSING)
        self.ours = target.make(self, None if self.stock is _MISSING else self.stock)

    @staticmethod
    def of(target: Target) -> "Site":
        key = (id(target.owner), target.attribute)
        site = _sites.get(key)
        if site is None:
            site = _sites[key] = Site(target)
            setattr(target.owner, target.attribute, site.ours)
        return site

    def held_by(self, patch: Patch) -> "Site":
        self.patches = (*self.patches, patch)
        return self

    def released_by(self, patch: Patch) -> None:
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


def answer(site: Site, call: "_operator.Call | str", stock: Callable[[], Any]) -> Any:
    """libmsda's answer to the call, [B,Q,M*D], or that of stock code where `call` is a reason or libmsda refuses it."""
    patches = site.patches
    reason = call.refusal() if isinstance(call, _operator.Call) else call
    if reason is None:
        begin = time.perf_counter()
        try:
            output = call.forward()
        except libmsda.UnsupportedError as error:
            reason = str(error)
        else:
            seconds = time.perf_counter() - begin
            for patch in patches:
                patch._count_call(call.shape(), seconds)
            return output
    for patch in patches:
        patch._count_fallback(reason)
    return stock()


def replacement(read: Callable[..., "_operator.Call | str"]) -> Callable[[Site, Any], Any]:
    """A Target's make(): `read` takes a call's arguments and returns a Call, or the reason why it is none."""

    def make(site: Site, stock: Any) -> Any:
        @torch.compiler.disable  # a compiled model leaves its graph here and goes on in a second one
        def run(*args: Any, **kwargs: Any) -> Any:
            return answer(site, read(*args, **kwargs), lambda: stock(*args, **kwargs))

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
