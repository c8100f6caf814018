seq 1 200000 > in && dd if=in of=out bs=64k status=none && cmp in out && dd if=in of=out bs=1 seek=100000 count=20 conv=notrunc status=none && cksum out
dd if=in of=out bs=4k oflag=append conv=notrunc,fsync status=none && truncate -s 3M out && fallocate -l 100000 fresh && fallocate -p -o 0 -l 65536 in && cksum in out fresh
head -c 3000000 /dev/zero > zeros && od -c zeros | head -2 && shred -n 1 -u zeros && cat in in > both && cmp -n 1000 in both && tail -c 100 in | tac | cksum
