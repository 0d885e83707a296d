"""What tables are made of and belong to: the house's metadata, and the column that each of them begins with."""

from sqlalchemy import Column, MetaData, String

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def project_column() -> Column[str]:
    """The project that a row belongs to: what is not asked for in a project is not found."""
    return Column("project", String(32), nullable=False)
