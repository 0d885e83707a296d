"""The base class of the controllers, and how they get their dependencies.

A controller declares what it uses as annotated attributes. `bind` sets them on a subclass when the application is
created: Litestar's own injection resolves dependencies for every request, in a task each (docs/decisions/0044).
"""

from collections.abc import Mapping
from inspect import isfunction
from itertools import chain
from typing import Any

from litestar import Controller
from litestar.handlers import BaseRouteHandler


class ApiController(Controller):
    """A controller whose annotated attributes are its dependencies."""

    def get_route_handlers(self) -> list[BaseRouteHandler]:
        """The handlers in order of definition, which is their order in the OpenAPI document."""
        names = list(chain.from_iterable(vars(base) for base in type(self).__mro__))
        return sorted(super().get_route_handlers(), key=lambda handler: names.index(handler.fn.__name__))


def bind(controller: type[ApiController], dependencies: Mapping[str, Any]) -> type[ApiController]:
    """Return a subclass of `controller` with its dependencies, looked up by attribute name.

    Attributes that have a value already are optional. Raises LookupError for one that is missing.
    """
    attributes: dict[str, Any] = {}
    for name in controller.__annotations__:
        if name in dependencies:
            value = dependencies[name]
            attributes[name] = staticmethod(value) if isfunction(value) else value
        elif not hasattr(controller, name):
            raise LookupError(f"{controller.__name__} needs {name!r}.")
    return type(controller.__name__, (controller,), attributes)
