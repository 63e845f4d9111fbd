"""Sample job configs that run anywhere, since they need only the small image that the first start builds. Pure.

The image holds busybox and nothing else; every sample ends within seconds.
"""

from __future__ import annotations

from typing import NamedTuple

SAMPLE_IMAGE = "longshore/sample:1"


class Sample(NamedTuple):
    key: str
    title: str
    description: str  # one sentence
    config: str  # JSON with comments; its job name is ``key``

    def named(self, suffix: str) -> str:
        """The config with ``-suffix`` behind the job name: a user has each name once."""
        return self.config.replace(f'"jobName": "{self.key}"', f'"jobName": "{self.key}-{suffix}"', 1)


_HELLO_WORLD = """\
{
  "jobName": "hello-world",
  // The image every task runs in
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "hello",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 100,
      "gpuNumber": 0,
      // Every task knows its user, its job and its own place in it by PAI_* variables
      "command": "echo \\"Hello, $PAI_USER_NAME, from $PAI_JOB_NAME\\" && sleep 3 && echo Done"
    }
  ]
}
"""

_TWO_ROLES = """\
{
  "jobName": "two-roles",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "server",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 100,
      "gpuNumber": 0,
      // Every task gets a port labelled http. A small web server listens on it and never ends by itself
      "command": "echo 'Greetings from the server' > /tmp/greeting && exec httpd -f -h /tmp -p $PAI_CURRENT_CONTAINER_PORT"
    },
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 100,
      "gpuNumber": 0,
      // The addresses and ports of all tasks are exported to all tasks. The server may need a moment: try for a minute
      "command": "until wget -q -O - http://$PAI_HOST_IP_server_0:$PAI_PORT_LIST_server_0_http/greeting; do sleep 1; n=$((n+1)); [ $n -lt 60 ] || exit 1; done",
      // When the worker is done the job has succeeded, and the server is stopped
      "minSucceededTaskCount": 1
    }
  ]
}
"""  # noqa: E501 - a command is one JSON string, on one line

_FAILS = """\
{
  "jobName": "fails",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "main",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 100,
      "gpuNumber": 0,
      // The exit code and the last lines of stderr are shown on the job's page
      "command": "echo Starting; echo 'Something went wrong: there is no data to train on.' >&2; exit 3"
    }
  ],
  // A failed job is tried once more
  "retryCount": 1
}
"""

_TOO_MUCH_MEMORY = """\
{
  "jobName": "too-much-memory",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "main",
      "taskNumber": 1,
      "cpuNumber": 1,
      // The task may use 100 MB and is ended when it takes more
      "memoryMB": 100,
      "gpuNumber": 0,
      // tail keeps an endless line in memory
      "command": "echo 'Taking more and more memory ...'; tail /dev/zero"
    }
  ]
}
"""

_OUT_OF_TIME = """\
{
  "jobName": "out-of-time",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "main",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 100,
      "gpuNumber": 0,
      "command": "echo 'Working for a minute ...' && sleep 60"
    }
  ],
  "extras": {
    // It is ended ten seconds after it was placed
    "maxRunSeconds": 10,
    // Other jobs of its virtual cluster start before it
    "priority": -10,
    // It may start on room that is kept for another job, and gives it back when that one needs it
    "preemptible": true
  }
}
"""

SAMPLES = (
    Sample("hello-world", "Hello, world", "One task that greets you and ends.", _HELLO_WORLD),
    Sample(
        "two-roles",
        "Two roles that talk",
        "A web server and a worker that finds it by its exported address and port.",
        _TWO_ROLES,
    ),
    Sample("fails", "A job that fails", "Writes to stderr, exits with 3 and is tried once more.", _FAILS),
    Sample(
        "too-much-memory",
        "A job that runs out of memory",
        "Asks for 100 MB, takes more and is ended for it.",
        _TOO_MUCH_MEMORY,
    ),
    Sample(
        "out-of-time",
        "A job that runs out of time",
        "Lets other jobs go first, and is ended after its 10 s.",
        _OUT_OF_TIME,
    ),
)
