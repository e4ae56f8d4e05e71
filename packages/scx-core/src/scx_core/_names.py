"""Names that users get wrong, and the names of packages, whose modules are loaded on first use.

It is loaded with every package, so it loads next to nothing itself.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # that of typing would have to be loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

SUGGESTED = 3


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """How a message ends where there is no `name`: `; did you mean 'a' or 'b'?`, or "".

    Names that differ in upper and lower case alone are near ones.
    """
    from difflib import get_close_matches

    by_lower: dict[str, list[str]] = {}
    for one in names:
        by_lower.setdefault(one.lower(), []).append(one)
    near = get_close_matches(name.lower(), by_lower, n=SUGGESTED)
    found = [repr(one) for lower in near for one in by_lower[lower]][:SUGGESTED]
    if not found:
        return ""
    *others, last = found
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def lazy_name(namespace: dict[str, Any], modules: Mapping[str, str], name: str) -> Any:
    """`name` of a package, whose module is loaded for it.

    `namespace` holds the globals of the package, and `modules` the module of each name.

    Raises AttributeError, with near names, where the package has no such name.
    """
    if name not in modules:
        raise no_such_name(namespace, name)
    module = importlib.import_module(f"{namespace['__name__']}.{modules[name]}")
    namespace[name] = getattr(module, name)
    return namespace[name]


def no_such_name(
    namespace: Mapping[str, Any], name: str, submodules: Sequence[str] = ()
) -> AttributeError:
    """The error for a name that a package does not have."""
    package = namespace["__name__"]
    if name in submodules:
        text = f"{package}.{name} is a module: `import {package}.{name}`"
    else:
        there = [one for one in public_names(namespace, submodules) if not one.startswith("__")]
        near = did_you_mean(name, there) or f"; it has {', '.join(there)}"
        text = f"{package} {namespace['__version__']} has no {name!r}{near}"
    return AttributeError(text, name=name)


def public_names(namespace: Mapping[str, Any], submodules: Sequence[str] = ()) -> list[str]:
    """What `dir` lists of a package: its public names and modules, and what Python itself adds."""
    own = [name for name in namespace if name.startswith("__") and name.endswith("__")]
    return sorted({*own, *namespace["__all__"], *submodules})
