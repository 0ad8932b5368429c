#!/bin/sh
# Runs every check that needs a GPU, in less than ten minutes. Build the two programs first:
#
#     cargo build --release --locked -p tidegate-gpu -p tidegate-gpu-measure --features tidegate-gpu-measure/cudnn
#     gpu-host/measure.sh target/release/tidegate-gpu FOLDER [DATA]
#
# tidegate-gpu-measure must be in the same folder as tidegate-gpu. FOLDER receives the results and output of `record`, `time` and
# tests/frameworks/torch_time.py. python3 needs PyTorch with CUDA, numpy and safetensors; cuDNN and cuBLAS are those of PyTorch's
# wheels. DATA is a folder with JapaneseVowels_TRAIN.ts and JapaneseVowels_TEST.ts; with it, the recipe for the vowels is trained on
# the CPU and on the GPU. Every part runs, even after another one failed.
set -u
program=$1 out=$2 data=${3:-}
measure=$program-measure
here=$(dirname "$0")
wheels=$(python3 -c '
import glob, sys
print(":".join(folder for path in sys.path for folder in sorted(glob.glob(path + "/nvidia/*/lib"))))')
TIDEGATE_CUDA_PATH="$wheels${TIDEGATE_CUDA_PATH:+:$TIDEGATE_CUDA_PATH}"
# The loader does not search these folders by itself.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [ -e "$folder/libcuda.so.1" ] && TIDEGATE_CUDA_PATH="$TIDEGATE_CUDA_PATH:$folder"
done
# The loader also needs them for the libraries that cuDNN loads.
export TIDEGATE_CUDA_PATH LD_LIBRARY_PATH="$TIDEGATE_CUDA_PATH" PYTHONUNBUFFERED=1
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
export program measure data here scratch
part record 120 sh -c '"$measure" record --out "$0/recorded" || failed=1
    [ -z "$data" ] || { '"$train"'; }
    exit "${failed:-0}"' "$out"
rm -rf "$scratch"
# `time` runs before PyTorch: if both fail, the device is at fault.
part time 150 "$measure" time
part torch_time 280 python3 "$here/../tests/frameworks/torch_time.py" "$measure" "$out/torch_time.json"
exit "$failed"
