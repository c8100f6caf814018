mkdir -p from/x from/y && seq 1 20000 > from/x/n && echo y > from/y/f && ln -s ../x/n from/y/l && touch -d @1000000000 from/x/n from/y/f from/y
rsync -a from/ to && diff -r from to && echo more >> from/x/n && rm from/y/f && touch -d @1000000100 from/y && rsync -a --delete -v from/ to | sed '/^sent\|^total/d'
rsync -a --checksum --inplace from/ to && rsync -a --link-dest="$PWD/to" from/ snap && stat -c %h snap/x/n && diff -r from snap
