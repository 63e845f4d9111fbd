"""The settings of a process that needs the rows and little more: the models of our apps, and no app of others."""

from portal.settings import *  # noqa: F403

INSTALLED_APPS = ["base.apps.BaseRows", "clusters.apps.ClustersRows", "jobs.apps.JobsRows"]
