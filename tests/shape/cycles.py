"""Import cycles between modules, including imports inside functions; grimp, import-linter's library, reads them."""

import graphlib

import grimp


def find_cycle(*packages: str) -> list[str]:
    """Return the modules of one import cycle, or an empty list. Imports for type checking only don't count."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    return cycle_in({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def cycle_in(imports: dict[str, set[str]]) -> list[str]:
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []
