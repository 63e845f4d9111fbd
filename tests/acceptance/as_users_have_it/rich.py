"""Hides the package of this name from the portals of tests. Only tools of developers need it, so users have none;
where it is there, structlog loads it with 150 modules more in each of a portal's processes."""

raise ImportError("the portal runs without it")
