#!/bin/sh
# Runs the job's command inside its container, whatever the image is: needs a POSIX sh and nothing else.
# Standard output and error belong to the command alone; what this script has to say goes to its own log.
#
# The container's init (Docker's tini, told by TINI_KILL_PROCESS_GROUP) sends a signal to this whole process group, so
# TERM reaches the command and its children directly. The shells wait for what they started, so that a program has
# the whole grace period to save its work, and only then end.

pai=/pai
environment=/etc/environment
shell=/bin/bash
cgroup=/sys/fs/cgroup
home=/root

hold=$LONGSHORE_DEBUG_HOLD
unset TINI_KILL_PROCESS_GROUP LONGSHORE_DEBUG_HOLD
log=$pai/log/runtime.pai.log
(mkdir -p "$pai/log"; umask 0; : >"$log") 2>/dev/null
[ -f "$log" ] && [ -w "$log" ] || log=/dev/null
exec 3>&2 2>>"$log"

PAI_WORK_DIR=${PAI_WORK_DIR:-$(pwd)}
export PAI_WORK_DIR

# For logins by ssh, which start from an empty environment. Read by pam_env and by `.`: one quoted line a variable.
# A value of several lines cannot be written there (tr marks its line ends with \r) and is left out.
write_environment() {
    printf '\n'
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE \
        -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' -e '/\r/d' -e '/^PAI_WORK_DIR=/d' -e '/^TINI_KILL/d' -e '/^LONGSHORE_DEBUG/d' \
        -e '/^PAI|^LONGSHORE|PATH|PREFIX|JAVA|HADOOP|NVIDIA|CUDA/!d' \
        -e "s/'/'\\\\''/g" -e "s/^([^=]*)=(.*)\$/\\1='\\2'/p"
    printf "PAI_WORK_DIR='%s'\n" "$PAI_WORK_DIR"
}
if [ -w "$environment" ] || { [ ! -e "$environment" ] && [ -w "${environment%/*}" ]; }; then
    write_environment >>"$environment"
fi

# The code is under /pai/code for reading; a copy to work in goes beside the start directory.
copy_code() {
    for item in "$pai"/code/* "$pai"/code/.[!.]*; do
        [ -e "$item" ] || continue
        { cp -Rf "$item" . && chmod -R u+w "./${item##*/}"; } >&2 2>&1 ||
            echo "[WARNING] ${item##*/} could not be copied to $(pwd); it is in $pai/code" >&2
    done
}
[ ! -d "$pai/code" ] || copy_code

# ssh between the containers of the job and from outside (v1 contract, 5.6): for images that have it, as root.
set_up_ssh() {
    [ -r "$pai/bootstrap/ssh.key" ] || return 0
    sshd=$(command -v sshd) || sshd=/usr/sbin/sshd
    [ -x "$sshd" ] || sshd=
    if [ -z "$sshd" ] && ! command -v ssh >/dev/null; then
        echo '[INFO] no ssh: the image has neither ssh nor sshd; install openssh-server in it'
        return
    fi
    if [ ! -w "$home" ]; then
        echo '[INFO] no ssh: the image does not run as root'
        return
    fi
    mask=$(umask)
    umask 077
    mkdir -p "$home/.ssh"
    cat "$pai/bootstrap/ssh.key" >"$home/.ssh/$PAI_JOB_NAME"
    cat "$pai/bootstrap/ssh.authorized" >>"$home/.ssh/authorized_keys"
    job_hosts >>"$home/.ssh/config"
    umask "$mask"
    if [ "$sshd" ] && [ "$PAI_CONTAINER_SSH_PORT" ]; then
        # In the background, and holding nothing of the command's: its end shall end the container.
        start_sshd </dev/null >&2 3>&- &
    fi
}

# `ssh worker-0`: two entries for each task, its address and its port; ssh adds them up.
job_hosts() {
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE \
        -e "s|^PAI_HOST_IP_(.+)_([0-9]+)=(.*)\$|Host \\1-\\2\\
  HostName \\3\\
  User root\\
  IdentityFile $home/.ssh/$PAI_JOB_NAME\\
  StrictHostKeyChecking no\\
  UserKnownHostsFile /dev/null\\
  LogLevel ERROR|p" \
        -e 's|^PAI_PORT_LIST_(.+)_([0-9]+)_ssh=([0-9]+).*$|Host \1-\2\
  Port \3|p'
}

start_sshd() {
    umask 077
    mkdir -p /run/sshd
    host_key=$pai/bootstrap/ssh.host
    [ -f "$host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$host_key"
    # A login begins with an empty environment, whether or not the image's sshd asks PAM.
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' -e '/\r/d' \
        -e '/^(HOME|PWD|SHLVL|OLDPWD|_|TERM|HOSTNAME|TINI_KILL.*|LONGSHORE_DEBUG.*|LONGSHORE_FILE.*)=/d' -e p >"$home/.ssh/environment"
    printf 'PAI_WORK_DIR=%s\n' "$PAI_WORK_DIR" >>"$home/.ssh/environment"
    "$sshd" -p "$PAI_CONTAINER_SSH_PORT" -h "$host_key" -o PidFile=none -o PermitRootLogin=prohibit-password \
        -o PasswordAuthentication=no -o PubkeyAuthentication=yes -o StrictModes=no -o PermitUserEnvironment=yes \
        -o AuthorizedKeysFile=.ssh/authorized_keys && echo "[INFO] sshd listens on $PAI_CONTAINER_SSH_PORT"
}
set_up_ssh >&2

# True while anything but this script is alive in its process group.
group_lives() {
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        [ "${line%% *}" -ne $$ ] || continue
        # after the name: state, parent, group
        set -- ${line##*) }
        [ "$3" -ne $$ ] || [ "$1" = Z ] || return 0
    done
    return 1
}

# True when the kernel has killed a process of this container for its memory (cgroup v1, v2).
was_short_of_memory() {
    for file in "$cgroup/memory/memory.oom_control" "$cgroup/memory.events"; do
        [ -r "$file" ] || continue
        while read -r key count; do
            [ "$key" != oom_kill ] || [ "$count" -eq 0 ] || return 0
        done <"$file"
    done
    return 1
}

# Commands are written for bash.
[ -x "$shell" ] || shell=$(command -v bash) || shell=/bin/sh

stopping=
trap stopping=yes TERM
trap : HUP INT QUIT USR1 USR2
echo '[INFO] USER COMMAND START' >&2
(exec "$shell" "$pai/bootstrap/command.sh" 2>&3 3>&-)
code=$?
if [ "$code" -eq 0 ]; then
    echo '[INFO] USER COMMAND END' >&2
else
    echo "[INFO] the command ended with exit code $code" >&2
fi
# isDebug: the container of a command that failed is kept (the file tells the engine's health check), until it is told
# to end or its time is over. Its exit code is the command's all the same.
hold_for_debugging() {
    echo "=============================================================================" >&3
    echo "The command ended with exit code $code. isDebug is on: this container is kept" >&3
    echo "for $hold seconds and holds its resources. Log in by SSH to look around;" >&3
    echo "release or stop the job when you are done." >&3
    echo "=============================================================================" >&3
    : >"$pai/bootstrap/held"
    while [ "$hold" -gt 0 ] && [ -z "$stopping" ]; do
        sleep 1 &
        wait $!
        hold=$((hold - 1))
    done
    echo '[INFO] no longer kept for debugging' >&2
}
if [ "$hold" ] && [ "$code" -ne 0 ] && [ -z "$stopping" ]; then
    hold_for_debugging
fi
while [ "$stopping" ] && group_lives; do
    sleep 0.1 || sleep 1
done
# Two codes that nobody uses, read by exits.py. 255 is what an engine says of a container that was lost with its host;
# and of a container that ends at once it often misses that its command was killed for its memory.
[ "$code" -ne 255 ] || code=223
[ "$code" -ne 137 ] || ! was_short_of_memory || code=222
exit "$code"
