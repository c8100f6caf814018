seq 1 100 > n && vim -u NONE -es -c '%s/5/five/g' -c 'wq' n && vim -u NONE -es -c 'normal Gothe end' -c 'w! m' -c 'q!' n && tail -1 m
printf '3d\n$a\nlast\n.\nw\nq\n' | ed -s n && tail -1 n && ls -A
