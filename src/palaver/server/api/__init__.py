"""REST under /api, by Litestar; one file per section of the platform contract."""
