#!/usr/bin/env bash
# The native code's tests under sanitizers, and which of its lines they run: `make sanitize`, or native/sanitize.sh PYTHON TEST ...
set -euo pipefail
python=$(realpath -s "$1") && shift
PATH=$(dirname "$python"):$PATH
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Build the module with these options beside a copy of the Python files, and run the tests on it. The options' runtime is loaded
# first; it cannot look into Python's own memory, and what Python does not give back at exit is no leak of ours.
check() {
  local name=$1 options=$2 runtime=$3
  local build=build/$name copy=$PWD/build/$name/python
  shift 3
  echo "== $name: $options"
  cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$python" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEADWATER_OPTIMISE=-O1 \
    -DCMAKE_CXX_FLAGS="$options -fno-omit-frame-pointer" -DHEADWATER_OUTPUT="$copy/headwater" >"$build.log" || { cat "$build.log"; return 1; }
  mkdir -p "$copy"
  cp -r src/headwater "$copy"
  rm -f "$copy"/headwater/native*.so
  cmake --build "$build" >"$build.log" || { tail -40 "$build.log"; return 1; }
  # -S: no .pth file, so that the copy is what is imported
  env LD_PRELOAD="$(g++ -print-file-name="$runtime") $(g++ -print-file-name=libstdc++.so.6)" PYTHONPATH="$copy:$packages" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 \
    setarch --addr-no-randomize "$python" -S -m pytest -q -p no:cacheprovider "$@"
}

mkdir -p build
find build/sanitize-address -name '*.gcda' -delete 2>/dev/null || true
check sanitize-address "-fsanitize=address,undefined -fno-sanitize-recover=undefined --coverage" libasan.so "$@"
check sanitize-thread "-fsanitize=thread" libtsan.so tests/test_native_threads.py
gcovr --root . --filter native/ --exclude-throw-branches build/sanitize-address
