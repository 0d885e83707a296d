"""Size limits of test sets, rows and files. Exceeding one raises TooLarge."""

import msgspec

from palaver.errors import TooLarge


class TestsetLimits(msgspec.Struct, frozen=True):
    """Limits of one set, and of one file that is imported."""

    rows: int = 1_000_000
    columns: int = 1_000
    row_bytes: int = 1024 * 1024
    """Bytes of a row as compact JSON."""
    file_bytes: int = 2 * 1024 * 1024 * 1024

    @property
    def max_raw_bytes(self) -> int:
        """Maximum number of bytes of one row in a file, which may have spaces, escapes and doubled quotes."""
        return 8 * self.row_bytes + 65_536

    def check_row(self, size: int, location: str) -> None:
        if size > self.row_bytes:
            raise TooLarge(f"{location}: the row has {size:,} bytes (limit: {self.row_bytes:,}).")

    def check_rows(self, count: int) -> None:
        if count > self.rows:
            raise TooLarge(f"Too many rows (limit: {self.rows:,}).")

    def check_columns(self, count: int) -> None:
        if count > self.columns:
            raise TooLarge(f"Too many columns (limit: {self.columns:,}).")

    def check_file(self, size: int) -> None:
        if size > self.file_bytes:
            raise TooLarge(f"The file exceeds the limit of {self.file_bytes:,} bytes.")


DEFAULT_LIMITS = TestsetLimits()
