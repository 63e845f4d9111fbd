"""The job routes of the v1 API: thin skins over jobs.services and jobs.queries."""
