"""django-q2's command, changed so that all of its processes end together: when the first one ends, and when one of them
is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.process import BaseProcess
from typing import Any

from django_q import cluster
from django_q.management.commands.qcluster import Command as Qcluster

from portal.core.deathsig import forks_die_with_parent
from portal.hosts.keys import refuse_other_keys
from portal.wakes import processes


class Sentinel(cluster.Sentinel):
    def reincarnate(self, process: BaseProcess) -> None:
        """End all processes instead of replacing the one that was killed. A process that reads a multiprocessing queue
        holds its lock while it waits; killed, it never releases the lock, and its successor would wait for ever. ``up``
        starts them anew."""
        if process.exitcode is not None and process.exitcode < 0:
            cluster.logger.critical("A process of the workers was killed. All of them end and start again.")
            os.kill(os.getpid(), signal.SIGKILL)  # its children die with it
        super().reincarnate(process)


class Command(Qcluster):
    requires_system_checks = ()  # `up` has made them

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_other_keys()
        forks_die_with_parent()
        cluster.Sentinel = Sentinel
        super().handle(*args, **options)
        for sentinel in multiprocessing.active_children():
            sentinel.join()
            if sentinel.exitcode:
                raise SystemExit(1)  # whoever runs this must know that it was not told to end
        processes.leave("workers")
