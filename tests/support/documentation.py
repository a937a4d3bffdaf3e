"""What help() of each public name of a module has to say, so that it is enough to use it."""

import inspect
import re


def public(module):
    """(name, object) of the functions and classes of __all__, and of the classes' methods and properties."""
    for name in module.__all__:
        what = getattr(module, name)
        if inspect.isclass(what):
            yield name, what
            for method in sorted({m for c in what.__mro__ if _is_ours(c) for m in vars(c)}):
                found = inspect.getattr_static(what, method)
                found = getattr(found, "__func__", getattr(found, "fget", found))
                if not method.startswith("_") and inspect.isfunction(found):
                    yield f"{name}.{method}", found
        elif inspect.isfunction(what):
            yield name, what


def _is_ours(kind):
    return kind.__module__.startswith("libmsda")


def gaps(what):
    """Parameters and fields that the text does not name, annotations that are missing, and the sentences on
    what is returned and raised."""
    text = inspect.getdoc(what) or ""
    if not text:
        return ["a docstring"]
    if inspect.isclass(what) and issubclass(what, BaseException):
        return []
    if inspect.isclass(what) and issubclass(what, tuple):
        return [field for field in what._fields if not re.search(rf"\b{field}\b", text)]
    signature = inspect.signature(what.__init__ if inspect.isclass(what) else what)
    own = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    named = [p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    found = [name for name in named if not re.search(rf"\b{name}\b", text)]
    found += [f"the type of {p.name}" for p in own if p.annotation is p.empty]
    if not inspect.isclass(what):
        if signature.return_annotation is signature.empty:
            found.append("the type of what is returned")
        elif signature.return_annotation is not None and own and "eturns" not in text:
            found.append("Returns")
    if own and "aises" not in text:
        found.append("Raises")
    return found
