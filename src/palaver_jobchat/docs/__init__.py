"""Documentation: a folder of Markdown, cut into pieces, indexed, searched, and remembered between turns."""
