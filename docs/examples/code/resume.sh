#!/bin/sh
# A job in plain shell that goes on where it was. Needs curl.
#
#     sh resume.sh 600 results/count     600 steps; the state is in that folder of its user's files
#
# A step is a fifth of a second here. The state is the number of the last one: a file in the store, which outlives the
# container. It is saved every 50 steps, and when the task is told that it ends.
steps=$1
state="$LONGSHORE_WEBHDFS_URL/users/$PAI_USER_NAME/$2/step"
token=$(cat "$LONGSHORE_WEBHDFS_TOKEN_FILE")

load() {
    code=$(curl -sSL -o step -w '%{http_code}' "$state?op=OPEN&delegation=$token")
    case $code in
    200) step=$(cat step) && echo "goes on after step $step" ;;
    404) step=0 && echo "begins at step 0" ;;
    *) echo "the store answers $code" >&2 && exit 1 ;; # never begin anew because the store is away
    esac
}

# Whoever reads the state meanwhile finds the one before, whole. The second line tells that what was done is safe.
save() {
    echo "$step" >step
    curl -fsSL -X PUT -T step "$state?op=CREATE&overwrite=true&delegation=$token" &&
        : >"$LONGSHORE_SAVED_FILE" && echo "saved step $step"
}

trap : TERM USR1 # a shell without a trap ends at once
echo "attempt $LONGSHORE_ATTEMPT; the last one: ${LONGSHORE_LAST_END:-there was none}"
load
while [ "$step" -lt "$steps" ]; do
    sleep 0.2
    step=$((step + 1))
    echo "step $step"
    if [ -s "$LONGSHORE_NOTICE_FILE" ]; then
        sed -n 's/^"reason": "\(.*\)",$/told to end: \1/p' "$LONGSHORE_NOTICE_FILE"
        save && exit 143
    fi
    [ $((step % 50)) -ne 0 ] || save
done
save
echo "done after $step steps"
