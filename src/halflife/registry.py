"""Registries of notions, plans and mechanisms, by name.

A policy, a saved account and the contract suites find them here; nothing else needs to change when one is added.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

from halflife.errors import unknown

T = TypeVar("T")

NOTIONS: dict[str, Any] = {}
PLANS: dict[tuple[str, str], Callable[..., Any]] = {}
MECHANISMS: dict[str, Any] = {}


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module and folder of a package whose name has no underscore in front, by name, so that each registers itself.

    A package calls it when its own names are there: a notion is added by its files alone.
    """
    for module in sorted(pkgutil.iter_modules(path), key=lambda m: m.name):
        if not module.name.startswith("_"):
            import_module(f"{package}.{module.name}")


def register_notion(cls: type[T]) -> type[T]:
    """Register a notion's class under its `name`."""
    NOTIONS[cls.name] = cls  # type: ignore[attr-defined]
    return cls


def register_plan(notion: str, *methods: str) -> Callable[[T], T]:
    """Register a function `(notion, request) → Plan` as these planning methods of a notion."""

    def remember(function: T) -> T:
        for method in methods:
            PLANS[notion, method] = function  # type: ignore[assignment]
        return function

    return remember


def register_mechanism(cls: type[T]) -> type[T]:
    """Register a mechanism's class under its `name`."""
    MECHANISMS[cls.name] = cls  # type: ignore[attr-defined]
    return cls


def find_notion(name: object) -> Any:
    """Return the notion's class, or refuse with the nearest name."""
    if not isinstance(name, str) or name not in NOTIONS:
        raise unknown("notion", name, NOTIONS)
    return NOTIONS[str(name)]


def find_plan(notion: str, method: object) -> Callable[..., Any]:
    """Return the function that plans, or refuse with the methods that the notion has."""
    methods = {m: f for (n, m), f in PLANS.items() if n == notion}
    if not isinstance(method, str) or method not in methods:
        raise unknown(f"plan for {notion}", method, methods)
    return methods[method]


def find_mechanism(name: object) -> Any:
    """Return the mechanism's class, or refuse with the nearest name."""
    if not isinstance(name, str) or name not in MECHANISMS:
        raise unknown("mechanism", name, MECHANISMS)
    return MECHANISMS[name]
