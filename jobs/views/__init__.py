"""The pages about jobs: thin skins over jobs.pages (what is shown) and jobs.services (what is changed)."""
