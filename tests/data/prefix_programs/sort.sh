seq 1 200000 | awk '{ print ($1 * 7919) % 200003 }' > in && sort -n -S 200k -T . --parallel=2 in > out && sort -nc out && sort -n -o in in && cmp in out
split -n l/5 in p. && cat p.* | cmp - in && sort -m -n p.* | cksum && comm -12 in out | wc -l && join in out | wc -l && uniq -c in | tail -1 && rm p.* in out
