#!/bin/sh
# Runs the job's command inside its container, whatever the image is: needs a POSIX sh and nothing else.
# Standard output and error belong to the command alone; what this script has to say goes to its own log.
#
# The container's init (Docker's tini, told by TINI_KILL_PROCESS_GROUP) sends a signal to this whole process group, so
# TERM reaches the command and its children directly. The shells wait for what they started, so that a program has
# the whole grace period to save its work, and only then end.

pai=/pai
environment=/etc/environment

unset TINI_KILL_PROCESS_GROUP
exec 3>&2
{ exec 2>>"$pai/log/runtime.pai.log"; } 2>/dev/null || exec 2>/dev/null

PAI_WORK_DIR=${PAI_WORK_DIR:-$(pwd)}
export PAI_WORK_DIR

# For logins by ssh, which start from an empty environment. Read by pam_env and by `.`: one quoted line a variable.
# A value of several lines cannot be written there (tr marks its line ends with \r) and is left out.
write_environment() {
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE \
        -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' -e '/\r/d' -e '/^PAI_WORK_DIR=/d' -e '/^TINI_KILL/d' \
        -e '/^PAI|PATH|PREFIX|JAVA|HADOOP|NVIDIA|CUDA/!d' \
        -e "s/'/'\\\\''/g" -e "s/^([^=]*)=(.*)\$/\\1='\\2'/p"
    printf "PAI_WORK_DIR='%s'\n" "$PAI_WORK_DIR"
}
if [ -w "$environment" ] || { [ ! -e "$environment" ] && [ -w "${environment%/*}" ]; }; then
    write_environment >>"$environment"
fi

# Commands are written for bash.
shell=/bin/sh
for candidate in /bin/bash /usr/bin/bash /usr/local/bin/bash; do
    if [ -x "$candidate" ]; then
        shell=$candidate
        break
    fi
done

trap : HUP INT QUIT USR1 USR2 TERM
echo '[INFO] USER COMMAND START' >&2
"$shell" -c 'trap "exit 143" TERM; . "$0"' "$pai/bootstrap/command.sh" 2>&3 3>&-
code=$?
if [ "$code" -eq 0 ]; then
    echo '[INFO] USER COMMAND END' >&2
else
    echo "[INFO] the command ended with exit code $code" >&2
fi
exit "$code"
