"""What is measured: one module each, with one function `measure(stand) -> figures`."""
