mkdir -p from/deep && seq 1 50000 > from/numbers && ln -s ../numbers from/deep/link && ln from/numbers from/hard
cp -a from to && diff -r from to && cp -r --preserve=all to again && mv again moved && cp -u from/numbers to
cp --sparse=always from/numbers sparse && install -D -m 750 from/numbers made/too/program && stat -c '%a %h %s' to/hard
