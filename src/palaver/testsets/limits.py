"""How large a test set may be (contract: test sets, A6). What is beyond is refused with `too_large`."""

import msgspec

from palaver.errors import TooLarge


class TestsetLimits(msgspec.Struct, frozen=True):
    """Of one set, and of one file that is read into it."""

    rows: int = 1_000_000
    columns: int = 1_000
    row: int = 1024 * 1024
    """Bytes of a row as compact JSON."""
    file: int = 2 * 1024 * 1024 * 1024
    """Bytes of a file."""

    @property
    def raw(self) -> int:
        """Bytes that the text of one row may take in a file: there it may have spaces, escapes and doubled quotes."""
        return 8 * self.row + 65_536

    def check_row(self, size: int, where: str) -> None:
        """Is a row of so many bytes small enough?"""
        if size > self.row:
            raise TooLarge(f"{where}: the row has {size} bytes; {self.row} are allowed.")

    def check_rows(self, count: int) -> None:
        """Are so many rows few enough?"""
        if count > self.rows:
            raise TooLarge(f"There are more than {self.rows} rows.")

    def check_columns(self, count: int) -> None:
        """Are so many columns few enough?"""
        if count > self.columns:
            raise TooLarge(f"There are more than {self.columns} columns.")

    def check_file(self, size: int) -> None:
        """Is a file of at least so many bytes small enough?"""
        if size > self.file:
            raise TooLarge(f"The file has more than {self.file} bytes.")


DEFAULT_LIMITS = TestsetLimits()
