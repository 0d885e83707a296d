"""The measurements: one module each, with one function `measure(context) -> figures`."""
