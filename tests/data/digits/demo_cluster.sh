#!/usr/bin/env bash
# The same network as in demo.sh, trained on a cluster of three processes: its weights live at a parameter server,
# one worker trains it, and the other one tests it without being told the weights. `make demo-cluster` runs it, and with
# --tls (TLS=1) nobody on the way sees a word of it.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here"

if [[ -z "${FLOWENGINE_CLUSTER:-}" ]]; then
    exec flowengine cluster up --local ps=1,worker=2 "$@" -- bash "$here/demo_cluster.sh"
fi

show() { printf '\n$ %s\n' "$*" >&2; "$@"; }

show flowengine cluster status

printf '\nTrain at the first worker.\n' >&2
show flowengine run digits.pb --at /job:worker/task:0 \
    --place '*=/job:worker/task:0' --place 'variables/*=/job:ps/task:0' --place '*ReadVariableOp*=/job:ps/task:0' --place 'train/*=/job:ps/task:0' --place train=/job:ps/task:0 \
    --init init --target train --steps 300 --every 100 --fetch loss \
    --feed images=digits.npz:train_images --feed labels=digits.npz:train_labels

printf '\nTest at the second one: the weights are where they were.\n' >&2
result="$(show flowengine run digits.pb --at /job:worker/task:1 \
    --place '*=/job:worker/task:1' --place 'variables/*=/job:ps/task:0' --place '*ReadVariableOp*=/job:ps/task:0' --place 'train/*=/job:ps/task:0' --place train=/job:ps/task:0 \
    --fetch accuracy --feed images=digits.npz:test_images --feed labels=digits.npz:test_labels)"
echo "$result"
awk '/^accuracy:0 = / { if ($3 >= 0.95) right = 1 } END { exit !right }' <<<"$result" || {
    echo "the accuracy is below 95%" >&2
    exit 1
}
show flowengine cluster status
