#!/bin/sh
# Everything that a GPU has to be asked for, in less than ten minutes:
#
#     gpu-host/measure.sh target/release/tidegate-gpu FOLDER [DATA]
#
# FOLDER gets what `record` and `time` and tests/frameworks/torch_time.py write and print. python3 must have PyTorch with CUDA,
# numpy and safetensors; cuDNN and cuBLAS are those of its wheels. With a folder DATA, which has JapaneseVowels_TRAIN.ts and _TEST.ts,
# the recipe of the vowels is trained on the CPU and on the GPU. Each part runs whatever came of the one before.
set -u
program=$1 out=$2 data=${3:-}
here=$(dirname "$0")
wheels=$(python3 -c '
import glob, sys
print(":".join(folder for path in sys.path for folder in sorted(glob.glob(path + "/nvidia/*/lib"))))')
export LD_LIBRARY_PATH="$wheels${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONUNBUFFERED=1
# Where the loader does not find the driver by itself.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [ -e "$folder/libcuda.so.1" ] && LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$folder"
done
mkdir -p "$out"
failed=0
part() {
    name=$1 seconds=$2
    shift 2
    timeout "$seconds" "$@" >"$out/$name.txt" 2>&1
    code=$?
    [ "$code" -eq 0 ] || failed=1
    echo "== $name: exit $code"
    tail -n 45 "$out/$name.txt"
}
{ nvidia-smi -L; python3 --version; } 2>&1
# shellcheck disable=SC2016
train='for where in "cpu f32" "cuda f32" "cuda tf32" "cuda bf16"; do
    set -- $where
    printf "%s: " "$where"
    "$program" train --data "$data/JapaneseVowels_TRAIN.ts" --test "$data/JapaneseVowels_TEST.ts" --epochs 40 --lr 0.005 \
        --arch "$here/recipes/japanese_vowels.json" --device "$1" --math "$2" --json --out "$scratch/vowels.safetensors"
done'
scratch=$(mktemp -d)
export program data here scratch
part record 120 sh -c '"$program" record --out "$0/recorded" || failed=1
    [ -z "$data" ] || { '"$train"'; }
    exit "${failed:-0}"' "$out"
rm -rf "$scratch"
# After one that does not run, the others show whether it is the device.
part time 150 "$program" time
part torch_time 280 python3 "$here/../tests/frameworks/torch_time.py" "$program" "$out/torch_time.json"
exit "$failed"
