"""Families of interchangeable parts: each is a table from names to its members."""

import importlib
from collections import UserDict
from collections.abc import Mapping
from typing import Any, TypeVar

from prsrank.errors import InputError

T = TypeVar("T")


class Family(UserDict[str, T]):
    """The members of a family by name: what help texts list and refusals name.

    A new member is a file of its own and one entry here. Hyphens and underscores in names are
    the same.

    Args:
        what: what a member is, for messages.
        members: each the member itself, or "module:attribute" where importing it costs time;
            it is then imported when it is first asked for.

    >>> shapes = Family("shape", {"round": "math:pi", "square_cut": 4})
    >>> shapes["round"] > 3, shapes["square-cut"]
    (True, 4)
    >>> shapes.find("oval")
    Traceback (most recent call last):
    prsrank.errors.InputError: there is no shape 'oval'; there are: round, square_cut
    """

    def __init__(self, what: str, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self.what = what

    def find(self, name: str) -> T:
        """Return a member; an InputError that names all of them if there is none."""
        if name not in self:
            raise InputError(f"there is no {self.what} '{name}'; there are: {', '.join(self)}")
        return self[name]

    def __getitem__(self, name: str) -> T:
        name = self._spelled(name)
        member: Any = self.data[name]
        if isinstance(member, str):
            module, _, attribute = member.partition(":")
            member = self.data[name] = getattr(importlib.import_module(module), attribute)
        found: T = member
        return found

    def __contains__(self, name: object) -> bool:
        return self._spelled(str(name)) in self.data

    def _spelled(self, name: str) -> str:
        alike = (name, name.replace("_", "-"), name.replace("-", "_"))
        return next((one for one in alike if one in self.data), name)
