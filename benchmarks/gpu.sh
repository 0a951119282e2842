#!/usr/bin/env bash
# Runs parts of benchmarks/gpu.py on a GPU machine, each in a process and with a time limit of its
# own: bash benchmarks/gpu.sh [PART[:KERNELS][+PART...] ...]. Parts joined by + run side by side
# (comparisons, whose times do not matter). JSON and logs go to ${OUT:-benchmarks/results}.
# Wheels in .whl/ (pure Python, e.g. mamba-ssm without its extensions) are unpacked and used.
set -u
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results}
python=${PYTHON:-python3}
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for wheel in .whl/*.whl; do
  [ -e "$wheel" ] && "$python" -m zipfile -e "$wheel" "$scratch/lib"
done
export PYTHONPATH="$PWD/src:$scratch/lib" PYTHONUNBUFFERED=1
export TRITON_CACHE_DIR="$scratch/triton" NUMBA_CACHE_DIR="$scratch/numba"

limit() { # seconds a part may take
  case $1 in
    environment) echo 60 ;;
    selective) echo 90 ;;
    run) echo 240 ;;
    step | model | round | concurrency) echo 150 ;;
    *) echo 90 ;;
  esac
}

part() { # PART[:KERNELS]
  local name=${1%%:*} kernels=torch log="$out/gpu_${1/:/_}.log"
  case $1 in *:*) kernels=${1#*:} ;; esac
  # shellcheck disable=SC2086 - FLAGS are several words
  timeout "$(limit "$name")" "$python" benchmarks/gpu.py "$name" --kernels "$kernels" \
    --out "$out" ${FLAGS:-} >"$log" 2>&1
  local code=$?
  echo "== $1: exit code $code, $(grep -c . "$log") lines in $(basename "$log")"
  # The last lines, and what failed: the whole log may be long.
  grep -E "FAILED|Error" "$log" | cut -c1-300 | head -20
  tail -n "${TAIL:-25}" "$log" | cut -c1-160
  return $code
}

[ $# -gt 0 ] || set -- environment selective+model+round step step:mamba_ssm \
  run:mamba_ssm concurrency:mamba_ssm profile:mamba_ssm
failed=0
for group in "$@"; do
  processes=()
  for one in ${group//+/ }; do
    part "$one" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do
    wait "$process" || failed=1
  done
done
exit $failed
