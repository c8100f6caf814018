#!/bin/bash
# Opens its log anew for every line, and looks for a file that asks it to stop, as scripts around simulations do.
cd "$1" || exit
for ((step = 0; step < 1500; step++)); do
    [ -e stop ] && break
    echo "step $step done" >>progress.log
done
