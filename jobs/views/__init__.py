"""The views about jobs: thin skins over jobs.pages (what pages show) and jobs.services (what users change)."""
