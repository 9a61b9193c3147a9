#!/bin/sh
# readme.sh WRAP PROGRAM: the README's program gives what the zstd tool decodes to what went in, and
# README.md shows it as it is.
set -eu

wrap=$1
program=$2
here=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

: >"$scratch/empty"
printf x >"$scratch/one"
for i in 1 2 3 4 5 6 7 8; do cat "$here"/*.c; done >"$scratch/some"
for i in 1 2 3 4 5 6; do cat "$scratch/some"; done >"$scratch/more"
head -c 300000 /dev/urandom >"$scratch/random"
for body in empty one some more random; do
    timeout 120 $wrap "$program" <"$scratch/$body" >"$scratch/coded"
    zstd -dcq -M8MB "$scratch/coded" | cmp - "$scratch/$body"
    zstd -lv "$scratch/coded" 2>&1 | grep -q '^# Zstandard Frames: 1$'
done

# Slowly, through a pipe that is empty now and then.
(cat "$scratch/one"; sleep 0.2; cat "$scratch/some") >"$scratch/both"
(cat "$scratch/one"; sleep 0.2; cat "$scratch/some") | timeout 120 $wrap "$program" | zstd -dcq |
    cmp - "$scratch/both"

sed -n '/^```c$/,/^```$/p' "$here/../README.md" | sed '1d;$d' >"$scratch/shown"
cmp "$scratch/shown" "$here/readme.c"
