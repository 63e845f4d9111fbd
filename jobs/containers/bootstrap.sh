#!/bin/sh
# Runs the job's command inside its container, whatever the image is: needs a POSIX sh and nothing else.
# Standard output and error belong to the command alone; what this script has to say goes to its own log.
#
# The container's init (Docker's tini, told by TINI_KILL_PROCESS_GROUP) sends a signal to this whole process group, so
# TERM reaches the command and its children directly. The shells wait for what they started, so that a program has
# the whole grace period to save its work, and only then end.
#
# Its variables begin with ls_: a name that the job has in its environment would change for the command too.
# Each process takes half a millisecond of every start, so what the shell can do by itself has none: no $( ) and no pipe.

ls_pai=/pai
ls_environment=/etc/environment
ls_shell=/bin/bash
ls_cgroup=/sys/fs/cgroup
ls_home=/root
ls_init=/proc/1/environ
ls_net=/proc/net

ls_hold=$LONGSHORE_DEBUG_HOLD
unset TINI_KILL_PROCESS_GROUP LONGSHORE_DEBUG_HOLD
ls_ifs=$IFS
ls_log=$ls_pai/log/runtime.pai.log
ls_exit=$ls_pai/log/exit-code
ls_again= # it was kept after a failure and is opened again: its files stay as they were
[ ! -e "$ls_exit" ] || ls_again=1
(mkdir -p "$ls_pai/log"; : >"$ls_exit"; umask 0; : >"$ls_log") 2>/dev/null
[ -f "$ls_log" ] && [ -w "$ls_log" ] || ls_log=/dev/null
exec 3>&2 2>>"$ls_log"

PAI_WORK_DIR=${PAI_WORK_DIR:-$PWD}
export PAI_WORK_DIR

# True when something that is not ours listens on a port of this task: on the node's own network nobody else would see
# that before the command fails (v1 contract, 5.5). The kernel lists ports in hexadecimal, those that listen as 0A.
port_is_taken() {
    IFS=',;'
    for ls_port in $PAI_CONTAINER_HOST_PORT_LIST; do set -- "$@" "${ls_port##*:}"; done
    IFS=$ls_ifs
    [ $# -gt 0 ] || return 1
    ls_listen=$(printf '|%04X' "$@")
    ls_listen="s/^ *[0-9]+: [0-9A-F]+:(${ls_listen#?}) [0-9A-F:]+ 0A .*/\\1/p"
    ls_port=$(sed -nE "$ls_listen" "$ls_net/tcp" "$ls_net/tcp6")
    ls_port=$((0x0${ls_port%%[!0-9A-F]*}))
    [ "$ls_port" -ne 0 ]
}
if port_is_taken 2>/dev/null; then
    echo "Port $ls_port was given to this task, but something else listens on it on this node." >&3
    exit 224
fi

# The variables that others need to be given again, one line each; a value of several lines cannot be written so (tr
# marks its line ends with \r) and is left out. For logins by ssh, which start from an empty environment, quoted ones,
# which pam_env and `.` read. Behind a "-", those whose names no shell can hold, as of a role "my.role": sh drops them,
# and only the container's init still has them.
variables_in() {
    tr '\n\000' '\r\n' <"$1" | sed -nE \
        -e '/\r/d' -e '/^[A-Za-z_][A-Za-z0-9_]*=/!s/^[A-Za-z_][^=]*=/-&/p' -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' \
        -e '/^PAI_WORK_DIR=/d' -e '/^TINI_KILL/d' -e '/^LONGSHORE_DEBUG/d' \
        -e '/^PAI|^LONGSHORE|PATH|PREFIX|JAVA|HADOOP|NVIDIA|CUDA/!d' \
        -e "s/'/'\\\\''/g" -e "s/^([^=]*)=(.*)\$/\\1='\\2'/p"
}
ls_variables=
[ ! -r "$ls_init" ] || ls_variables=$(variables_in "$ls_init")
[ "$ls_variables" ] || ls_variables=$(variables_in "/proc/$$/environ")
# It is written to find out: as root, `[ -w ]` of busybox takes a file of a read-only file system for one.
{ printf '\n' >>"$ls_environment"; } 2>/dev/null || ls_environment=/dev/null
IFS='
'
set -f
set --
ls_odd=
for ls_line in $ls_variables; do
    case $ls_line in
    -*) ls_odd=1 ;;
    *) printf '%s\n' "$ls_line" ;;
    esac
done >>"$ls_environment"
printf "PAI_WORK_DIR='%s'\n" "$PAI_WORK_DIR" >>"$ls_environment"
# All at once: one by one, each would copy those before it, and a role of 1,000 tasks has thousands.
[ -z "$ls_odd" ] || set -- $(printf '%s\n' "$ls_variables" | sed -n 's/^-//p')
set +f
IFS=$ls_ifs

# The code is under /pai/code for reading; a copy to work in goes beside the start directory.
copy_code() {
    for ls_item in "$ls_pai"/code/* "$ls_pai"/code/.[!.]*; do
        [ -e "$ls_item" ] || continue
        { cp -Rf "$ls_item" . && chmod -R u+w "./${ls_item##*/}"; } >&2 2>&1 ||
            echo "[WARNING] ${ls_item##*/} could not be copied to $(pwd); it is in $ls_pai/code" >&2
    done
}
[ ! -d "$ls_pai/code" ] || [ "$ls_again" ] || copy_code

# ssh between the containers of the job and from outside (v1 contract, 5.6): for images that have it, as root.
set_up_ssh() {
    [ -r "$ls_pai/secrets/ssh.key" ] || return 0
    ls_sshd=/usr/sbin/sshd
    ! command -v sshd >/dev/null || ls_sshd=$(command -v sshd)
    [ -x "$ls_sshd" ] || ls_sshd=
    if [ -z "$ls_sshd" ] && ! command -v ssh >/dev/null; then
        echo '[INFO] no ssh: the image has neither ssh nor sshd; install openssh-server in it'
        return
    fi
    if [ ! -w "$ls_home" ]; then
        echo '[INFO] no ssh: the image does not run as root'
        return
    fi
    ls_mask=$(umask)
    umask 077
    mkdir -p "$ls_home/.ssh"
    cat "$ls_pai/secrets/ssh.key" >"$ls_home/.ssh/$PAI_JOB_NAME"
    cat "$ls_pai/bootstrap/ssh.authorized" >>"$ls_home/.ssh/authorized_keys"
    job_hosts >>"$ls_home/.ssh/config"
    umask "$ls_mask"
    if [ "$ls_sshd" ] && [ "$PAI_CONTAINER_SSH_PORT" ]; then
        # In the background, and holding nothing of the command's: its end shall end the container.
        start_sshd </dev/null >&2 3>&- &
    fi
}

# `ssh worker-0`: two entries for each task, its address and its port; ssh adds them up. All tasks start at about the same
# time, so a peer's sshd may not be up yet: ssh tries a refused connection again, once a second.
job_hosts() {
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE \
        -e "s|^PAI_HOST_IP_(.+)_([0-9]+)=(.*)\$|Host \\1-\\2\\
  HostName \\3\\
  User root\\
  IdentityFile $ls_home/.ssh/$PAI_JOB_NAME\\
  StrictHostKeyChecking no\\
  UserKnownHostsFile /dev/null\\
  ConnectionAttempts 60\\
  LogLevel ERROR|p" \
        -e 's|^PAI_PORT_LIST_(.+)_([0-9]+)_ssh=([0-9]+).*$|Host \1-\2\
  Port \3|p'
}

start_sshd() {
    umask 077
    mkdir -p /run/sshd
    ls_host_key=$ls_pai/bootstrap/ssh.host
    [ -f "$ls_host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$ls_host_key"
    # A login begins with an empty environment, whether or not the image's sshd asks PAM.
    tr '\n\000' '\r\n' <"/proc/$$/environ" | sed -nE -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' -e '/\r/d' \
        -e '/^(HOME|PWD|SHLVL|OLDPWD|_|TERM|HOSTNAME|TINI_KILL.*|LONGSHORE_DEBUG.*|LONGSHORE_FILE.*)=/d' -e p >"$ls_home/.ssh/environment"
    printf 'PAI_WORK_DIR=%s\n' "$PAI_WORK_DIR" >>"$ls_home/.ssh/environment"
    # By the image's configuration; where it has none that works, by no other than this.
    listen || listen -f /dev/null -o 'Subsystem=sftp internal-sftp' || return 0
    echo "[INFO] sshd listens on $PAI_CONTAINER_SSH_PORT"
}

listen() {
    "$ls_sshd" -p "$PAI_CONTAINER_SSH_PORT" -h "$ls_host_key" -o PidFile=none -o PermitRootLogin=prohibit-password \
        -o PasswordAuthentication=no -o PubkeyAuthentication=yes -o StrictModes=no -o PermitUserEnvironment=yes \
        -o AuthorizedKeysFile=.ssh/authorized_keys "$@"
}
set_up_ssh >&2

# True while anything but this script and the container's first process is alive in its process group, which under
# Kubernetes is that of the first process.
group_lives() {
    read -r ls_line <"/proc/$$/stat" && set -- ${ls_line##*) } && ls_group=$3
    for ls_stat in /proc/[0-9]*/stat; do
        { read -r ls_line <"$ls_stat"; } 2>/dev/null || continue
        case ${ls_line%% *} in $$ | 1) continue ;; esac
        # after the name: state, parent, group
        set -- ${ls_line##*) }
        [ "$3" -ne "$ls_group" ] || [ "$1" = Z ] || return 0
    done
    return 1
}

# True when the kernel has killed a process of this container for its memory (cgroup v1, v2).
was_short_of_memory() {
    for ls_file in "$ls_cgroup/memory/memory.oom_control" "$ls_cgroup/memory.events"; do
        [ -r "$ls_file" ] || continue
        while read -r ls_key ls_count; do
            [ "$ls_key" != oom_kill ] || [ "$ls_count" -eq 0 ] || return 0
        done <"$ls_file"
    done
    return 1
}

# Commands are written for bash.
[ -x "$ls_shell" ] || { command -v bash >/dev/null && ls_shell=$(command -v bash); } || ls_shell=/bin/sh

ls_stopping=
trap ls_stopping=yes TERM
trap : HUP INT QUIT USR1 USR2
echo '[INFO] USER COMMAND START' >&2
(
    # The secrets of the job are variables of its command alone, not of this script.
    [ ! -r "$ls_pai/secrets/job.sh" ] || . "$ls_pai/secrets/job.sh"
    [ $# -eq 0 ] || ! command -v env >/dev/null || exec env "$@" "$ls_shell" "$ls_pai/bootstrap/command.sh" 2>&3 3>&-
    exec "$ls_shell" "$ls_pai/bootstrap/command.sh" 2>&3 3>&-
)
ls_code=$?
# Codes of our own for what an exit code cannot say: an engine gives 137 and 143 to a container that was ended from
# outside, and 255 to one that was lost with its host. Here the command itself ended so.
ls_own=$ls_code
case $ls_stopping$ls_code in
137) ls_own=220 ;;
143) ls_own=221 ;;
*255) ls_own=223 ;;
esac
# Told to end, it may save its work and end with any code, also with 0: then it is not done all the same. Whether the
# engine told it is for the engine's side to find out: `kill 0` in the command gets here too. The code is in the file,
# and that it was told too, for an engine that dies right now.
ls_told=
case $ls_stopping$ls_code in
yes137 | yes143) ;;
yes0) ls_own=225 ;;
yes*) [ ! -f "$ls_exit" ] || [ ! -w "$ls_exit" ] || ls_own=225 ;;
esac
[ "$ls_own" -ne 225 ] || [ -z "$ls_stopping" ] || ls_told=' told'
if [ "$ls_code" -eq 0 ]; then
    echo '[INFO] USER COMMAND END' >&2
else
    echo "[INFO] the command ended with exit code $ls_code" >&2
fi

# isDebug: the container of a command that failed is kept (the file tells the engine's health check), until it is told
# to end or its time is over. Its exit code is the command's all the same. In slices, so that nobody who kills a `sleep`
# ends it, and not in many, so that a week is a week. Nothing that is left in it is waited for: as without isDebug, the
# end of the command was the end.
hold_for_debugging() {
    {
        echo '============================================================================='
        echo "The command ended with exit code $ls_code. isDebug is on: this container is kept for"
        echo "$(in_words "$ls_hold") with all its resources, for you to look around in it."
        echo 'It should be stopped by hand when it is no longer needed: release or stop the job.'
        echo '============================================================================='
    } >&3
    (echo "$ls_code" >"$ls_pai/bootstrap/held")
    while [ "$ls_hold" -gt 0 ] && [ -z "$ls_stopping" ]; do
        ls_slice=60
        [ "$ls_hold" -ge "$ls_slice" ] || ls_slice=$ls_hold
        sleep "$ls_slice" >/dev/null 2>&1 3>&- & # holds nothing open: a signal right after the fork passes it by
        [ "$ls_stopping" ] || wait $! # told meanwhile: nothing would end this wait
        ls_hold=$((ls_hold - ls_slice))
    done
    echo '[INFO] no longer kept for debugging' >&2
    ls_stopping=
    LONGSHORE_NOTICE_FILE=
}

in_words() {
    if [ "$1" -lt 120 ]; then
        echo "$1 seconds"
    elif [ "$1" -lt 7200 ]; then
        echo "$(($1 / 60)) minutes"
    elif [ "$1" -lt 172800 ]; then
        echo "$(($1 / 3600)) hours"
    else
        echo "$(($1 / 86400)) days"
    fi
}
# The notice of its end may be another signal, by which a shell without a trap ends too.
was_told() {
    [ "$ls_stopping" ] || [ -s "$LONGSHORE_NOTICE_FILE" ]
}
if [ "$ls_hold" ] && [ "$ls_code" -ne 0 ] && ! was_told; then
    hold_for_debugging
fi
while was_told && group_lives; do
    sleep 0.1 || sleep 1
done
# The command's own code, for an engine that dies right now. Of a container that ends at once an engine often misses
# that its command was killed for its memory.
[ ! -f "$ls_exit" ] || echo "$ls_code$ls_told" >"$ls_exit"
[ "$ls_code" -ne 137 ] || ! was_short_of_memory || ls_own=222
exit "$ls_own"
