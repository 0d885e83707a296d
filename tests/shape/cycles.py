"""Modules that import each other in a circle, late imports included; import-linter's grimp reads them."""

import graphlib

import grimp


def cycle(*packages: str) -> list[str]:
    """One circle of modules, from one back to itself; none is an empty list. For types alone does not count."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    return circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def circle(wants: dict[str, set[str]]) -> list[str]:
    """A circle in who wants whom, or an empty list."""
    try:
        graphlib.TopologicalSorter(wants).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []
