#!/usr/bin/env bash
# A small convolutional network learns handwritten digits, is tested on digits that it has not seen, and reads one.
# Every step of it is a `flowengine` command; `make demo` runs it.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$here"

show() { printf '\n$ %s\n' "$*" >&2; "$@"; }

printf 'Train on 1440 digits and keep the weights.\n' >&2
show flowengine run digits.pb --init init --target train --steps 400 --every 100 --fetch loss \
    --feed images=digits.npz:train_images --feed labels=digits.npz:train_labels \
    --final weights/conv1 --final weights/conv1_bias --final weights/conv2 --final weights/conv2_bias \
    --final weights/dense1 --final weights/dense1_bias --final weights/dense2 --final weights/dense2_bias \
    --output "$work/trained.npz"

printf '\nTest on 357 digits that were held out.\n' >&2
show flowengine run digits.pb --feed "$work/trained.npz" --fetch accuracy \
    --feed images=digits.npz:test_images --feed labels=digits.npz:test_labels | tee "$work/accuracy.txt"
awk '/^accuracy:0 = / { if ($3 >= 0.95) right = 1 } END { exit !right }' "$work/accuracy.txt" || {
    echo "the accuracy is below 95%" >&2
    exit 1
}

printf '\nRead one digit from a picture.\n' >&2
show flowengine run digits.pb --feed "$work/trained.npz" --feed images=digit.png --image-scale 1/15 \
    --fetch scores --json >"$work/scores.json"
python "$here/show.py" digit.png "$work/scores.json"

printf '\nAll this was %s; the README goes on with a model of Keras, in docs/examples.\n' "$(command -v flowengine)" >&2
